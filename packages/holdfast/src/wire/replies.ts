/** Replies of our own scripts, whose texts some clients give as Buffers. */
import { assert } from '../core/assert.ts'
import {
  BackendUnavailableError,
  type LockError,
  NotALockError,
  OutcomeUnknownError,
} from '../core/errors.ts'
import { parseToken } from '../core/token.ts'

/** The texts of a reply; numbers become decimal text. */
export function textsOf(reply: unknown): string[] {
  assert(Array.isArray(reply), 'this script answers with a list')
  return reply.map(String)
}

/** Of a release. */
export function releasedOf(reply: unknown): 'released' | 'not-held' {
  return Number(reply) === 1 ? 'released' : 'not-held'
}

/** What those replies mean that grant nothing and refuse nothing. */
export function failureOf([kind = '', key = '', found = '']: readonly string[]): LockError {
  if (kind === 'not-a-lock') return new NotALockError(key, found)
  assert(kind === 'no-token', `no script answers "${kind}" here`)
  return new BackendUnavailableError(
    'down',
    'no fencing token is left: the counter of this key prefix was raised to its end',
  )
}

/** The token of a grant as a script answers it: an integer, or decimal text. Null: it is none. */
export function tokenOf(reply: unknown): bigint | null {
  if (typeof reply !== 'number') return parseToken(String(reply))
  return Number.isSafeInteger(reply) && reply > 0 ? BigInt(reply) : null
}

/** For a question before a request: whatever became of the question, the request was not sent. */
export function failAsNotSent(error: unknown): never {
  if (!(error instanceof OutcomeUnknownError)) throw error
  const words = 'Redis did not tell what the client puts before keys; nothing else was sent'
  throw new BackendUnavailableError('down', words, { cause: error.cause })
}
