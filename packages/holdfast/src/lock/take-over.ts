/** Revoking: an operator takes a lock over from the holder that was seen. */
import type { RevokeOptions } from '../core/backend.ts'
import { elapsedMs, instant } from '../core/elapsed.ts'
import { OutcomeUnknownError } from '../core/errors.ts'
import { requestTimeoutMsMax } from '../core/validity.ts'
import { ask } from './attempt.ts'
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
  const settings = context.options.read({
    renew: false,
    label: `revoke: ${seen.reason}`.slice(0, 64),
  })
  const asked = ask(context, lockName, settings, false)
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
    const base = {
      nowMs: grant.sentAtMs,
      bootMs: asked.from.bootMs + (grant.sentAtMs - asked.from.nowMs),
    }
    const spentMs = elapsedMs(base, instant(context.seams))
    if (spentMs >= grant.ttlMs) return null
    return new HeldLease(context, settings, grant, base, grant.ttlMs)
  } catch (error) {
    const failure = asLockError(error, 'revoke')
    if (failure.code === 'OUTCOME_UNKNOWN') cancel()
    throw failure
  }
}
