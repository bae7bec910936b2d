/** Questions that change nothing: who holds what. Bounded like every request. */
import type { LockInfo } from '../core/backend.ts'
import { BackendUnavailableError, LockError } from '../core/errors.ts'
import { started } from '../core/started.ts'
import { requestTimeoutMsMax } from '../core/validity.ts'
import type { Context } from './context.ts'
import { asLockError, bounded, isBug } from './request.ts'

/** @throws BackendUnavailableError when there is no answer within 2 s, or none that says why. */
export async function look<T>(context: Context, ask: () => Promise<T>): Promise<T> {
  try {
    return await bounded(context, { timeoutMs: requestTimeoutMsMax, ask, onTimeout: noAnswer })
  } catch (error) {
    if (error instanceof LockError || isBug(error)) throw error
    // Nothing can have been applied by a question.
    const { message } = asLockError(error, 'looking')
    throw new BackendUnavailableError('down', message, { cause: error })
  }
}

/** At most `limit` entries; each step of the listing has the time of one request. */
export async function* listing(
  context: Context,
  prefix: string,
  limit: number,
): AsyncGenerator<LockInfo, void, undefined> {
  const entries = context.backend.list(prefix, limit)[Symbol.asyncIterator]()
  try {
    for (let count = 0; count < limit; count += 1) {
      const next = await look(context, () => entries.next())
      if (next.done === true) return
      yield next.value
    }
  } finally {
    // Not awaited: a store that hangs must not hold back who stops reading.
    started(async () => entries.return?.()).catch(() => {})
  }
}

function noAnswer(): LockError {
  return new BackendUnavailableError('down', `no answer within ${requestTimeoutMsMax} ms`)
}
