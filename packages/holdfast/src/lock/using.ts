/** How `using` ends: what its function did, against what became of the lease. */
import { LeaseLostError } from '../core/errors.ts'
import type { HeldLease } from './lease.ts'

/**
 * Calls `fn`, releases, and decides what the caller gets:
 *
 * | lease | fn | the caller gets |
 * |---|---|---|
 * | held to the end | returned | the value, also if only the release failed (the event tells) |
 * | held to the end | threw | that error |
 * | lost | returned | LeaseLostError: the value may rest on a lock that was gone |
 * | lost | threw the loss itself, or an error caused by it | LeaseLostError |
 * | lost | threw something else | that error, with the loss as its cause if it has none |
 */
export async function settle<T>(lease: HeldLease, fn: () => Promise<T>): Promise<T> {
  let settled: PromiseSettledResult<T>
  try {
    settled = { status: 'fulfilled', value: await fn() }
  } catch (error) {
    settled = { status: 'rejected', reason: error }
  }
  // Told before the release: what fn did while the lease was lost counts, not what comes after.
  const lostBefore = lease.loss(settled)
  const released = await lease.release().catch(() => 'unconfirmed' as const)
  const loss = lostBefore ?? (released === 'not-held' ? lease.loss(settled) : null)
  if (settled.status === 'fulfilled') {
    if (loss) throw loss
    return settled.value
  }
  if (loss && lease.isOwnLoss(settled.reason)) throw withCause(loss, settled.reason)
  if (loss) addCause(settled.reason, loss)
  throw settled.reason
}

function withCause(loss: LeaseLostError, cause: unknown): LeaseLostError {
  const { lockName, fencingToken, heldMs, reason, settled } = loss
  return new LeaseLostError({ lockName, fencingToken, heldMs, reason, settled }, { cause })
}

/** The caller's own error stays what it was; the loss is attached where there is room for it. */
function addCause(error: unknown, loss: LeaseLostError): void {
  if (!(error instanceof Error) || error.cause !== undefined || !Object.isExtensible(error)) return
  Object.defineProperty(error, 'cause', {
    value: loss,
    writable: true,
    configurable: true,
    enumerable: false,
  })
}
