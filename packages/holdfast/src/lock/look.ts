/** Questions that change nothing: who holds what. Bounded like every request. */
import type { LockInfo } from '../core/backend.ts'
import { BackendUnavailableError, type LockError } from '../core/errors.ts'
import { requestTimeoutMsMax } from '../core/validity.ts'
import type { Context } from './context.ts'
import { bounded } from './request.ts'

/** @throws BackendUnavailableError when there is no answer within 2 s. */
export function look<T>(context: Context, ask: () => Promise<T>): Promise<T> {
  return bounded(context, { timeoutMs: requestTimeoutMsMax, ask, onTimeout: noAnswer })
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
    entries.return?.()?.catch(() => {})
  }
}

function noAnswer(): LockError {
  return new BackendUnavailableError('down', `no answer within ${requestTimeoutMsMax} ms`)
}
