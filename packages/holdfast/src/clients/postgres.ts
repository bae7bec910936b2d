/**
 * What errors of PostgreSQL and of its drivers mean, and text that is safe inside a statement.
 *
 * The drivers themselves: ./pg-pool.ts and ./postgres-js.ts. None is imported.
 */
import { BackendUnavailableError, type UnavailableReason } from '../core/errors.ts'

export { quoteIdentifier } from './sql-names.ts'

/** Errors that are wrapped deeper than this are looked at no further. */
const CAUSE_DEPTH_MAX = 5

/** The error and what it was caused by: query builders wrap what the driver threw. */
function* causes(error: unknown): Generator<object> {
  let current = error
  for (let depth = 0; depth < CAUSE_DEPTH_MAX; depth++) {
    if (typeof current !== 'object' || current === null) return
    yield current
    current = (current as { cause?: unknown }).cause
  }
}

/** Whether `error` is `wanted`, or was caused by it. */
export function isCausedBy(error: unknown, wanted: unknown): boolean {
  return wanted !== null && [...causes(error)].some((cause) => cause === wanted)
}

/**
 * The server's five-character code, from the error or from what caused it; null: it came from
 * elsewhere. No class of codes begins with E (PostgreSQL 17, appendix A), but Node's EPIPE and EPERM
 * are five capitals too.
 */
export function sqlState(error: unknown): string | null {
  for (const cause of causes(error)) {
    const { code } = cause as { code?: unknown }
    if (typeof code === 'string' && /^[0-9A-DF-Z][0-9A-Z]{4}$/.test(code)) return code
  }
  return null
}

/** Node's and the drivers' words for a connection that is no more. */
const LOST_CODE =
  /^(?:ECONN\w+|EPIPE|ETIMEDOUT|EHOSTUNREACH|ENETUNREACH|ERR_STREAM_\w+|CONNECTION_\w+|CONNECT_TIMEOUT)$/
const LOST_MESSAGE =
  /^(?:Connection terminated|Client was closed|Client has encountered a connection error|Query read timeout)/

/** The server ended the session: 57P01 to 57P05, 25P03, 25P04, or a connection exception. */
const SESSION_OVER = /^(?:08|57P|25P03|25P04)/

/** Whether the error says that its connection is over, so that no answer will come on it. */
export function isConnectionLoss(error: unknown): boolean {
  const state = sqlState(error)
  if (state !== null) return SESSION_OVER.test(state)
  for (const cause of causes(error)) {
    const { code, message } = cause as { code?: unknown; message?: unknown }
    if (typeof code === 'string' && LOST_CODE.test(code)) return true
    if (typeof message === 'string' && LOST_MESSAGE.test(message)) return true
  }
  return false
}

/** The session does not know a statement's name, or knows it although the driver does not. */
const NAME_STATES = ['26000', '42P05']

/** Whether a statement failed for its name alone: without one it can be sent again. */
export function isForgotten(error: unknown): boolean {
  return NAME_STATES.includes(sqlState(error) ?? '')
}

/**
 * A connection that ended while nothing was on its way, told by a driver that keeps the server's words
 * (25P03) to itself.
 */
export class ClosedWhileIdle extends Error {
  readonly code = 'CONNECTION_CLOSED'

  constructor(cause: unknown) {
    super('the connection was closed while it was idle', { cause })
  }
}

/** By the server's code; the longest prefix that matches decides. */
const REASONS: readonly (readonly [prefix: string, why: UnavailableReason])[] = [
  ['57P03', 'loading'],
  ['25006', 'read-only'],
  ['53300', 'backlog'],
  ['53', 'out-of-memory'],
  ['42501', 'no-permission'],
  ['28', 'no-permission'],
]

/** Nothing was applied: why, in the words of `BackendUnavailableError`. */
export function unavailable(error: unknown, what: string): BackendUnavailableError {
  const state = sqlState(error) ?? ''
  const why = REASONS.find(([prefix]) => state.startsWith(prefix))?.[1] ?? 'down'
  const { message } = (error ?? {}) as { message?: unknown }
  const detail = typeof message === 'string' && message !== '' ? `: ${message}` : ''
  return new BackendUnavailableError(why, `PostgreSQL: ${what}${detail}`, { cause: error })
}

const PLAIN_LITERAL = /^[ !#-&(-[\]-~]*$/

/**
 * A text constant that stands for exactly `text` under every setting of the session.
 *
 * Printable ASCII without quote and backslash stands as it is, so that the server's logs can be
 * read. Everything else travels as hexadecimal digits: what a quote or a backslash means depends on
 * `standard_conforming_strings`, and in some client encodings a byte of a longer character is a
 * backslash.
 */
export function quoteLiteral(text: string): string {
  if (PLAIN_LITERAL.test(text)) return `'${text}'`
  return `convert_from(decode('${Buffer.from(text).toString('hex')}', 'hex'), 'UTF8')`
}

/**
 * `text` with its arguments written out as constants. A `$1` inside a quoted name is part of the name;
 * constants of the text itself contain none.
 */
export function inlined(text: string, values: readonly string[]): string {
  return text.replace(/"(?:[^"]|"")*"|\$(\d+)/g, (whole: string, digits: string | undefined) =>
    digits === undefined ? whole : quoteLiteral(values[Number(digits) - 1] ?? ''),
  )
}
