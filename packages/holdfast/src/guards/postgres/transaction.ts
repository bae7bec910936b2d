/**
 * A guarded transaction: its steps (begin and claim, the user's work), COMMIT.
 *
 * Guarantees: COMMIT follows a good claim and the work, in their transaction. Whatever this rejects with
 * was not applied, OutcomeUnknownError excepted. After a lease is lost no COMMIT is sent.
 *
 * A holder that stops inside must not block the next one for ever. The server ends its transaction
 * when one statement, one wait for a lock or one idle gap lasts longer than the validity that was
 * left at BEGIN; a running process destroys the connection itself when its lease's signal aborts.
 * The time-outs do not follow later renewals: a single statement or gap longer than what was left at
 * BEGIN is cut although the watchdog has kept the lease, and is reported as busy, not as lost. A
 * transaction of many short steps may last as long as its lease is renewed.
 *
 * Rejected: moving the time-outs along with renewals, by statements of ours between the user's: they
 * would land inside savepoints, cursors and COPY, and a running statement could not be reached.
 * Giving up on `work` when the lease is lost: it would go on unseen.
 */
import { ClosedWhileIdle, sqlState, unavailable } from '../../clients/postgres.ts'
import {
  GuardBusyError,
  InvalidArgumentError,
  LockError,
  OutcomeUnknownError,
} from '../../core/errors.ts'
import { type Bound, onLoss } from '../shared/bound.ts'
import type { Claimed } from '../shared/record.ts'
import { type Call, type Parts, pause } from './call.ts'
import { borrow, type Session } from './session.ts'
import { settle } from './settle.ts'
import { beginText } from './statements.ts'
import { type Done, MayBeginAgain, type Steps } from './steps.ts'

/** After the first run. Each means that another transaction went first. */
const RETRIES_MAX = 5
/** Doubles; two that fell out with each other should not meet again at once. */
const RETRY_DELAY_MS = 4
/** The server's own time-out comes first; its answer has to travel. */
export const ANSWER_ALLOWANCE_MS = 1000
/** However little validity is left, the answer to a COMMIT that was sent is worth this wait. */
const COMMIT_MS_MIN = 1000

/** One transaction of a call. */
type Run<Tx> = Readonly<{
  parts: Parts<Tx>
  call: Call
  session: Session<Tx>
  limitMs: number
  beganAtMs: number
}>

type Attempt<T> = { readonly value: T } | { readonly again: unknown }

export async function runGuarded<Tx, T>(
  parts: Parts<Tx>,
  call: Call,
  steps: Steps<Tx, T>,
): Promise<T> {
  const { bound, claim } = call
  for (let retries = 0; ; retries++) {
    const attempt = await attemptOnce(parts, call, steps)
    if ('value' in attempt) return attempt.value
    if (retries === RETRIES_MAX || bound.remainingMs() === 0) {
      bound.assertValid()
      const runs = `${retries + 1} runs met other transactions`
      throw new GuardBusyError(claim.resource, runs, { cause: attempt.again })
    }
    await pause(parts.seams, RETRY_DELAY_MS * 2 ** retries * parts.seams.jitter())
  }
}

async function attemptOnce<Tx, T>(
  parts: Parts<Tx>,
  call: Call,
  steps: Steps<Tx, T>,
): Promise<Attempt<T>> {
  const { bound, claim, fenced } = call
  const begin = beginText(parts.settings.isolation)
  const { session, limitMs } = await borrowFor(parts, bound, begin)
  const run: Run<Tx> = { parts, call, session, limitMs, beganAtMs: parts.seams.nowMs() }
  const unwatch = onLoss(bound, () => session.destroy())
  let isClaimed = false
  let done: Done<T>
  try {
    const answerMs = limitMs + ANSWER_ALLOWANCE_MS
    const { statements } = parts
    const opening = { session, statements, claim, fenced, limitMs, answerMs }
    done = await steps(opening, () => {
      isClaimed = true
    })
  } catch (error) {
    unwatch()
    const wasAlive = await session.rollBack()
    if (isSerializationFailure(error) || error instanceof MayBeginAgain) return { again: error }
    throw explain(run, error, wasAlive, isClaimed)
  }
  unwatch()
  return await commit(run, done.claimed, done.value)
}

/** A connection, and what the server's time-outs are set to. */
type Borrowed<Tx> = Readonly<{ session: Session<Tx>; limitMs: number }>

/**
 * The pool may keep a call waiting until its lease is over.
 *
 * @throws LeaseLostError when it is, before or after; BackendUnavailableError.
 */
export async function borrowFor<Tx>(
  { driver, deadlines }: Parts<Tx>,
  bound: Bound,
  begin: string | null,
): Promise<Borrowed<Tx>> {
  let session: Session<Tx> | null = null
  try {
    session = await borrow(driver, bound.validMs(), deadlines, begin)
    return { session, limitMs: bound.validLimitMs() }
  } catch (error) {
    await session?.rollBack()
    bound.assertValid()
    throw error
  }
}

async function commit<Tx, T>(run: Run<Tx>, claimed: Claimed, value: T): Promise<Attempt<T>> {
  const { call, session } = run
  if (!session.isUsable) {
    session.destroy()
    throw explain(run, session.failure, false, false)
  }
  if (session.status === 'I') {
    session.giveBack()
    throw new OutcomeUnknownError(
      'the function given to transaction() ended the transaction itself: what it did before was ' +
        'applied or rolled back by that, and what it did after was not guarded',
    )
  }
  const restMs = call.bound.remainingMs()
  const lost = restMs > 0 ? null : call.bound.loss()
  if (lost !== null) {
    await session.rollBack()
    throw lost.error
  }
  try {
    const withinMs = Math.max(restMs, COMMIT_MS_MIN)
    const { command } = await session.send('COMMIT', undefined, withinMs)
    session.giveBack()
    if (command === 'ROLLBACK') throw swallowed()
    return { value }
  } catch (error) {
    if (error instanceof InvalidArgumentError) throw error
    return commitFailed(run, claimed, value, error)
  }
}

/** COMMIT was sent and not confirmed. */
async function commitFailed<Tx, T>(
  run: Run<Tx>,
  claimed: Claimed,
  value: T,
  error: unknown,
): Promise<Attempt<T>> {
  const { parts, call, session, limitMs } = run
  // The server refused it only if it says so and the session goes on. A driver that merely stopped
  // waiting would get its answer to a later statement too, behind the COMMIT's.
  const state = sqlState(error)
  if (state !== null && (await session.rollBack())) {
    if (isSerializationFailure(error)) return { again: error }
    throw explain(run, error, true, true)
  }
  session.destroy()
  // The work went on in the moment in which the server cut it as idle: it has not seen the COMMIT.
  if (state === '25P03') throw explain(run, error, false, true)
  const outcome = await settle(parts, call.claim, claimed.seq, limitMs)
  if (outcome === 'committed') return { value }
  if (outcome === 'not-committed') throw unavailable(error, 'the connection was lost at COMMIT')
  throw new OutcomeUnknownError(
    `the answer to COMMIT was lost, and the guard's record of "${call.claim.resource}" does not ` +
      'tell whether it was applied',
    { cause: error },
  )
}

/** Two clocks that differ by 1 % at most, and time-outs in whole milliseconds. */
function slackOf(limitMs: number): number {
  return 2 + limitMs / 100
}

function endedAfter(limitMs: number): string {
  return `the server ended the transaction at its time-out of ${limitMs} ms`
}

function swallowed(): InvalidArgumentError {
  return new InvalidArgumentError(
    'fn',
    'a function that resolved although a statement of its transaction had failed',
    'one that lets that error out, or rolls back to a savepoint; nothing was applied',
  )
}

/** Another transaction went first, and this one may begin again. */
export function isSerializationFailure(error: unknown): boolean {
  const state = sqlState(error)
  return state === '40001' || state === '40P01'
}

/**
 * What the caller is told of a transaction that was rolled back.
 *
 * @param wasAlive Whether the connection still answered.
 * @param isTheirs The error comes out of the user's function, or is about what it did.
 */
function explain<Tx>(run: Run<Tx>, error: unknown, wasAlive: boolean, isTheirs: boolean): unknown {
  const { call, session, limitMs } = run
  const { resource } = call.claim
  const endedAtMs = session.failedAtMs ?? run.parts.seams.nowMs()
  const elapsedMs = endedAtMs - run.beganAtMs
  const slackMs = slackOf(limitMs)
  const state = sqlState(error)
  const isCut =
    (state === '57014' && elapsedMs >= limitMs - slackMs) ||
    (state === '55P03' && (!isTheirs || elapsedMs >= limitMs - slackMs))
  const isOver = !wasAlive && (error === null || session.isOwnEnd(error))
  if (isCut || isOver) {
    const lost = call.bound.loss(slackMs)
    if (lost !== null) return lost.error
    const wasIdle =
      state === '25P03' ||
      sqlState(session.failure) === '25P03' ||
      (session.failure instanceof ClosedWhileIdle && elapsedMs >= limitMs - slackMs)
    if (isCut || (isOver && wasIdle)) {
      const what =
        state === '55P03' ? 'another transaction keeps its row locked' : endedAfter(limitMs)
      return new GuardBusyError(resource, what, { cause: error ?? session.failure })
    }
    if (session.failure instanceof LockError) return session.failure
    return unavailable(error ?? session.failure, 'the connection was lost')
  }
  if (isTheirs || error instanceof LockError || state === '57014') return error
  return claimFailed(run.parts.settings.schema, error)
}

/** The claim's own statement failed, for a reason of the database. */
export function claimFailed(schema: string, error: unknown): unknown {
  if (error instanceof LockError) return error
  if (sqlState(error) !== '42P01') return unavailable(error, 'the claim failed')
  return new InvalidArgumentError(
    'schema',
    schema,
    "one with the guard's table: run guard.migrate() once, or guard.ddl as its owner",
  )
}

/** The same in the caller's own transaction, where the caller decides what follows. */
export function claimFailedInside(schema: string, resource: string, error: unknown): unknown {
  const state = sqlState(error)
  if (state === '55P03') {
    return new GuardBusyError(resource, 'its row is locked', { cause: error })
  }
  // A serialization failure, a cancel and a transaction that failed before (25P02) are for whoever
  // began the transaction.
  const isTheirs = isSerializationFailure(error) || state === '57014' || state === '25P02'
  return isTheirs ? error : claimFailed(schema, error)
}
