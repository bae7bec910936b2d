/** Revoking: an operator takes a lock over from the holder that was seen. */
import type { RevokeOptions } from '../core/backend.ts'
import { elapsedMs, instant } from '../core/elapsed.ts'
import { ClosedError, OutcomeUnknownError } from '../core/errors.ts'
import { LABEL_BYTES_MAX } from '../core/options.ts'
import { cutUtf8 } from '../core/owner.ts'
import { requestTimeoutMsMax } from '../core/validity.ts'
import { ask, checkGrant } from './attempt.ts'
import type { Context } from './context.ts'
import { HeldLease } from './lease.ts'
import { asLockError, bounded } from './request.ts'

/**
 * The operator's lease has a token of its own, larger than the old holder's, and what was left of
 * the old holder's time: it may come nearly spent and is not renewed. Claiming with it stops the old
 * holder at the data.
 *
 * @returns null when the lock is no longer the seen holder's.
 */
export async function takeOver(
  context: Context,
  lockName: string,
  seen: RevokeOptions,
): Promise<HeldLease | null> {
  // Defaults that keep a name taken are for work: an operator's release frees it at once.
  const settings = context.options.read({
    renew: false,
    minHoldMs: 0,
    lockDelayMs: 0,
    maxHoldMs: Number.POSITIVE_INFINITY,
    label: cutUtf8(`revoke: ${seen.reason}`, LABEL_BYTES_MAX),
  })
  const startedAtMs = context.seams.nowMs()
  const asked = ask(context, lockName, settings, { waits: false, startedAtMs })
  const { owner } = asked.request
  const cancel = (): void => context.undo.cancel(lockName, owner, settings.ttlMs)
  try {
    const grant = await bounded(context, {
      timeoutMs: requestTimeoutMsMax,
      ask: () => context.backend.revoke(asked.request, seen),
      onTimeout: () =>
        new OutcomeUnknownError(`no answer to a revoke within ${requestTimeoutMsMax} ms`),
      late: (grant) => {
        if (grant) cancel()
      },
    })
    if (grant === null) return null
    const now = instant(context.seams)
    checkGrant(asked, grant, now.nowMs)
    if (context.isClosed()) {
      cancel()
      throw new ClosedError()
    }
    const base = {
      nowMs: grant.sentAtMs,
      bootMs: asked.from.bootMs + (grant.sentAtMs - asked.from.nowMs),
    }
    if (elapsedMs(base, now) >= grant.ttlMs) {
      // The store may still name us, as a holder that nobody knows of.
      cancel()
      return null
    }
    // Told first: a lease that comes spent is lost as soon as it is made.
    const waitedMs = now.nowMs - startedAtMs
    context.emitter.emit('acquired', { lockName, fencingToken: grant.fencingToken, waitedMs })
    const lease = new HeldLease(context, settings, grant, { base, now, ttlMs: grant.ttlMs })
    asked.lease = lease
    if (asked.lost !== null) lease.lose(asked.lost)
    return lease
  } catch (error) {
    const failure = asLockError(error, 'revoke')
    if (failure.code === 'OUTCOME_UNKNOWN') cancel()
    throw failure
  }
}
