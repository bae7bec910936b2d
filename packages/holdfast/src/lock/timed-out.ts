/** What a contender is told whose time to wait is over. */
import { LockError, LockHeldError, OutcomeUnknownError } from '../core/errors.ts'
import type { Contender } from './contender.ts'
import { type Context, holderInfo } from './context.ts'
import type { Line } from './line.ts'

/** What stood in the way is told by the last answer that the line got. */
export function timedOut(context: Context, line: Line | null, contender: Contender): LockError {
  const { lockName, startedAtMs, settings } = contender
  const { seams, held } = context
  const nowMs = seams.nowMs()
  const waitedMs = nowMs - startedAtMs
  const local = held.get(lockName)
  if (line?.failure instanceof LockError) return line.failure
  if (line === null || (!line.refusal && !local)) {
    // Never "unavailable": silence does not mean that nobody holds it.
    return new OutcomeUnknownError(`no answer within ${settings.waitMs} ms`)
  }
  if (local?.isHeld) line.progress.note(local.fencingToken, nowMs)
  const { progress, refusal } = line
  const ours = local ? holderInfo(context, local.settings) : null
  const holder = refusal && !local?.isHeld ? refusal.holder : ours
  return new LockHeldError(lockName, waitedMs, holder, {
    votes: refusal?.votes,
    ...progress.told(contender.handOversBefore),
  })
}
