/**
 * How a grant ends: released to everybody, or passed on to the next contender of this process.
 *
 * Guarantees:
 * E1. A release is repeated only as long as it can matter, with a small budget of its own, never with
 *     the waiting rules of an acquire. What the budget did not settle goes on in the background until
 *     the entry has ended by itself.
 * E2. A grant that was passed on to a contender who has left meanwhile is passed on again, or
 *     released: no grant is ever without a holder.
 * E3. A hand-over of unknown outcome cancels the next owner, so that at most one of the two holds.
 *
 * Passing on takes one request where release and acquire take two, and no wake-up. So that other
 * processes do not starve, the backend tells whether one of them waits; see `Waits.mayKeep`.
 */
import { assert } from '../core/assert.ts'
import type { Grant, HandOverResult } from '../core/backend.ts'
import { BackendUnavailableError, type LockError, OutcomeUnknownError } from '../core/errors.ts'
import { type Asked, accept, ask } from './attempt.ts'
import type { Contender } from './contender.ts'
import type { Context } from './context.ts'
import type { HeldLease } from './lease.ts'
import { asLockError, bounded, isBug } from './request.ts'

const RETRY_MS_FIRST = 50

export interface Ending {
  readonly grant: Grant
  /** The rest of a minimum hold at the moment of asking. */
  readonly keepForMs: () => number
  /** How long the caller of `release()` is kept waiting at most. */
  readonly budgetMs: number
  /** Until then the store must still have named us, unless one of our own requests ended it. */
  readonly sureUntilMs: number
  /** When the entry ends by itself. */
  readonly endsAtMs: number
  /** Called once the store confirmed a hand-over, before the next holder learns of its grant. */
  readonly onHandedOver?: () => void
}

export type Ended = 'released' | 'not-held'

/** @throws LockError when the store did not confirm within the budget (E1). */
export function endGrant(context: Context, ending: Ending): Promise<Ended> {
  const untilMs = context.seams.nowMs() + ending.budgetMs
  const failed = (error: unknown): Promise<Ended> => endAgain(context, ending, untilMs, error)
  const next = nextOf(context, ending)
  if (next === null) return free(context, ending, ending.budgetMs, failed)
  return passOn(context, ending, next, ending.budgetMs).catch(failed)
}

/** Who is passed the grant. A hand-over that failed once may fail for its own reasons: it is tried once. */
function nextOf({ backend, waits }: Context, { grant, keepForMs }: Ending): Contender | null {
  return backend.handOver !== undefined && keepForMs() === 0 ? waits.take(grant.lockName) : null
}

/** Releases to everybody; `failed` is told of an error in place of the caller. */
function free(
  context: Context,
  { grant, keepForMs }: Ending,
  timeoutMs: number,
  failed?: (error: unknown) => Promise<Ended>,
): Promise<Ended> {
  const { backend, waits } = context
  return bounded(context, {
    timeoutMs,
    ask: () => backend.release(grant, keepForMs()),
    onTimeout: () => noAnswer('release', timeoutMs),
    answered: () => waits.ended(grant.lockName),
    failed,
  })
}

/** After the first try failed with `error`. */
async function endAgain(
  context: Context,
  ending: Ending,
  untilMs: number,
  error: unknown,
): Promise<Ended> {
  const { seams, undo, waiting, backend } = context
  let failure = error
  let unknown = false
  for (let delayMs = RETRY_MS_FIRST; ; delayMs *= 2) {
    unknown ||= !(failure instanceof BackendUnavailableError)
    // The caller of a backend with a bug is told at once.
    if (isBug(failure) || seams.nowMs() + delayMs >= untilMs) {
      undo.keepTrying(() => backend.release(ending.grant, ending.keepForMs()), ending.endsAtMs)
      throw asLockError(failure, 'release')
    }
    await new Promise<void>((resolve) => waiting.add(seams.nowMs() + delayMs, resolve))
    try {
      const answer = await free(context, ending, untilMs - seams.nowMs())
      // Asked twice, "not held" may be the work of the first.
      return unknown && seams.nowMs() < ending.sureUntilMs ? 'released' : answer
    } catch (again) {
      failure = again
    }
  }
}

async function passOn(
  context: Context,
  { grant, onHandedOver }: Ending,
  next: Contender,
  timeoutMs: number,
): Promise<Ended> {
  const { backend, undo, waits } = context
  const { lockName } = grant
  const { handOver } = backend
  assert(handOver !== undefined, 'only a backend that can hand over is asked to')
  const asked = askFor(context, lockName, next)
  const { owner, ttlMs } = asked.request
  let result: HandOverResult
  try {
    result = await bounded(context, {
      timeoutMs,
      ask: () => handOver.call(backend, grant, asked.request, waits.mayKeep(lockName)),
      onTimeout: () => noAnswer('hand-over', timeoutMs),
      late: (answer) => {
        if (answer.kind === 'handed-over') undo.cancel(lockName, owner, ttlMs)
      },
    })
    assert(ANSWERS.has(result?.kind), 'a hand-over answers handed-over, freed or not-held')
  } catch (error) {
    // E3.
    if (!(error instanceof BackendUnavailableError)) undo.cancel(lockName, owner, ttlMs)
    waits.putBack(next, 'failed')
    throw error
  }
  if (result.kind !== 'handed-over') {
    waits.putBack(next, result.kind === 'freed' ? 'freed' : 'ended')
    return result.kind === 'not-held' ? 'not-held' : 'released'
  }
  waits.noteWanted(lockName, result.wanted)
  onHandedOver?.()
  deliver(context, asked, result.grant, next)
  return 'released'
}

/** The request of the next holder. */
function askFor(context: Context, lockName: string, next: Contender): Asked {
  const { settings, startedAtMs } = next
  try {
    return ask(context, lockName, settings, { waits: true, startedAtMs })
  } catch (error) {
    // A caller's clock threw: the line must not wait for somebody who was taken out of it.
    context.waits.putBack(next, 'failed')
    throw error
  }
}

const ANSWERS: ReadonlySet<unknown> = new Set(['handed-over', 'freed', 'not-held'])

/** Gives the grant to its contender, or passes it on when the contender has left (E2). */
function deliver(context: Context, asked: Asked, grant: Grant, next: Contender): void {
  const { waits, undo, endGrant } = context
  let lease: HeldLease | null
  try {
    lease = next.settled ? null : accept(context, asked, grant)
  } catch (error) {
    // A backend that breaks the contract must not leave the line waiting for this contender, nor an
    // entry of nobody.
    waits.putBack(next, 'failed')
    undo.cancel(asked.request.lockName, asked.request.owner, asked.request.ttlMs)
    throw error
  }
  if (lease !== null) return waits.grantTaken(next, lease)
  waits.putBack(next, 'ended')
  const nowMs = context.seams.nowMs()
  const ending: Ending = {
    grant,
    keepForMs: () => 0,
    budgetMs: asked.request.timeoutMs,
    sureUntilMs: nowMs,
    endsAtMs: nowMs + grant.ttlMs,
  }
  // What the budget did not settle goes on in the background (E1).
  endGrant(ending).catch(() => {})
}

function noAnswer(what: string, timeoutMs: number): LockError {
  return new OutcomeUnknownError(`no answer to a ${what} within ${Math.round(timeoutMs)} ms`)
}
