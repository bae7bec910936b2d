/**
 * Other people's PostgreSQL clients: the part of their shape that we call, what their errors mean,
 * and text that is safe inside a statement.
 *
 * The user passes a client; no driver is imported here.
 */
import { BackendUnavailableError, type UnavailableReason } from '../core/errors.ts'

/** A client of `pg` (Client, PoolClient), or anything of that shape. */
export interface PgClient {
  query(
    text: string,
    values?: unknown[],
    // The driver's rows are `any`; `unknown` here would keep its clients from fitting.
  ): Promise<{
    // biome-ignore lint/suspicious/noExplicitAny: what the driver declares.
    rows: any[]
    rowCount: number | null
  }>
  // biome-ignore lint/suspicious/noExplicitAny: each event of the driver has arguments of its own.
  on?(event: string, listener: (...args: any[]) => void): unknown
  // biome-ignore lint/suspicious/noExplicitAny: the same.
  removeListener?(event: string, listener: (...args: any[]) => void): unknown
}

/** A client that a pool lent; `true` ends its connection instead of keeping it. */
export type PgPooled<C extends PgClient> = C & { release(destroy?: boolean): void }

/** A `Pool` of `pg`. Both overloads stand here because `C` is inferred only from the whole set. */
export interface PgPool<C extends PgClient> {
  connect(): Promise<PgPooled<C>>
  // biome-ignore lint/suspicious/noExplicitAny: never called by us.
  connect(callback: any): any
}

/** What a driver answers; `command` is the tag of the statement, for example `COMMIT`. */
export interface PgAnswer {
  readonly rows: readonly Readonly<Record<string, unknown>>[]
  readonly command?: string | undefined
}

/**
 * The last answer of a text with one or several statements: drivers give a list only for several.
 */
export function lastAnswer(answer: unknown): PgAnswer {
  return (Array.isArray(answer) ? answer.at(-1) : answer) as PgAnswer
}

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

/** Node's and the driver's words for a connection that is no more. */
const LOST_CODE = /^(?:ECONN\w+|EPIPE|ETIMEDOUT|EHOSTUNREACH|ENETUNREACH|ERR_STREAM_\w+)$/
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

/** A name of a schema, table or column, exact and quoted. */
export function quoteIdentifier(name: string): string {
  return `"${name.replaceAll('"', '""')}"`
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
