/** Values of any kind as the fields and the messages of errors show them. */
import type { Vote } from './errors.ts'

/** A field of an error as plain data. */
export function plain(field: string, value: unknown): unknown {
  if (typeof value === 'bigint') return value.toString()
  if (typeof value !== 'object' || value === null) return primitive(value)
  if (field === 'holder') return { ...value }
  if (field === 'votes') return (value as readonly Vote[]).map(plainVote)
  if (field === 'settled') {
    const { status, ...outcome } = value as PromiseSettledResult<unknown>
    const [[name, what] = ['value', undefined]] = Object.entries(outcome)
    return { status, [name]: what instanceof Error ? what.message : plain(name, what) }
  }
  return describe(value)
}

function plainVote({ node, answer, elapsedMs, cause }: Vote): Record<string, unknown> {
  const why =
    cause === undefined ? {} : { cause: cause instanceof Error ? cause.message : shown(cause) }
  return { node, answer, elapsedMs, ...why }
}

function primitive(value: unknown): unknown {
  return typeof value === 'function' || typeof value === 'symbol' ? describe(value) : value
}

/** Stands for what may be a secret, in messages and in the fields of errors. */
export const WITHHELD = '(withheld)'

/** A URL, whose user and query may be secrets, or a `user:password@host` without a scheme. */
function mayHoldSecret(text: string): boolean {
  return text.includes('://') || (text.includes(':') && text.includes('@'))
}

/**
 * A value of the caller as an error may keep it: a logger that follows fields finds no secret.
 *
 * Of an object only its class is kept, because anything may stand in it: a client holds the password
 * that it logs in with, and so do the options that one mistakes for a client.
 */
export function harmless(value: unknown): unknown {
  if (typeof value === 'string') return mayHoldSecret(value) ? WITHHELD : value
  if (Array.isArray(value)) return value.map(harmless)
  return typeof value === 'object' && value !== null ? describe(value) : value
}

/** The name of an option, which may be a key that the caller wrote, as in `nodes.<name>`. */
export function harmlessName(option: string): string {
  if (!mayHoldSecret(option)) return option
  const [path = ''] = /^[A-Za-z]+\./.exec(option) ?? []
  return `${path}${WITHHELD}`
}

/** What a secret of the wrong kind is; null and undefined have nothing to hide. */
export function kindOf(value: unknown): unknown {
  return value === undefined || value === null ? value : typeof value
}

const SHOWN_LENGTH_MAX = 100

/** For a message: never longer than a line, and nothing of what an object holds. */
export function shown(value: unknown): string {
  const text = typeof value === 'string' ? JSON.stringify(harmless(value)) : describe(value)
  return text.length <= SHOWN_LENGTH_MAX ? text : `${text.slice(0, SHOWN_LENGTH_MAX)}…`
}

function describe(value: unknown): string {
  if (typeof value === 'bigint') return `${value}n`
  if (typeof value === 'function') return 'a function'
  if (typeof value === 'object' && value !== null) {
    return Array.isArray(value)
      ? 'an array'
      : `an object (${value.constructor?.name ?? 'no class'})`
  }
  return String(value)
}
