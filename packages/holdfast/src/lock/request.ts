/**
 * One request to a store, bounded in time.
 *
 * The engine times every request itself: a client with an offline queue, or a hung server, never
 * answers at all. An answer that comes after the bound goes to `late`, because it may still change
 * what has to be undone.
 */
import { inspect } from 'node:util'
import { InvariantError } from '../core/assert.ts'
import {
  BackendUnavailableError,
  InvalidArgumentError,
  LockError,
  NotALockError,
  OutcomeUnknownError,
} from '../core/errors.ts'
import { started } from '../core/started.ts'
import type { Agenda } from './agenda.ts'
import type { Context } from './context.ts'

/** A timer that comes this late was kept back by a blocked event loop. */
const BLOCKED_MS = 10
const TURNS_MS = 5

export interface Request<T> {
  readonly timeoutMs: number
  readonly ask: () => Promise<T>
  readonly onTimeout: () => LockError
  /** Hears of the answer in the turn in which it came. */
  readonly answered?: () => void
  /** Is asked in place of the caller when there was no answer: each promise more is one more turn. */
  readonly failed?: ((error: unknown) => Promise<T>) | undefined
  /** Takes an answer for which nobody waits any more. */
  readonly late?: (answer: T) => void
  /** Whether no caller waits for it, so that it need not keep the process running. */
  readonly background?: boolean
}

export function bounded<T>(context: Context, request: Request<T>): Promise<T> {
  const agenda = request.background === true ? context.agenda : context.waiting
  return new Promise((resolve, reject) => {
    let waiting = true
    const fail = (error: unknown): void => {
      if (request.failed) resolve(request.failed(error))
      else reject(error)
    }
    const fromMs = context.seams.nowMs()
    // Sent first: what else has to be done is done while the store works.
    const asked = started(request.ask)
    const giveUp = (error: unknown): void => {
      waiting = false
      fail(error)
    }
    let endTimer = (): void => undefined
    try {
      endTimer = patientTimer(context, agenda, request.timeoutMs, fromMs, () =>
        giveUp(request.onTimeout()),
      )
    } catch (error) {
      // A caller's clock threw, after the request had left: as if it had timed out.
      giveUp(error)
    }
    asked.then(
      (answer) => {
        endTimer()
        try {
          if (!waiting) return request.late?.(answer)
          request.answered?.()
          resolve(answer)
        } catch (error) {
          // Of no effect after the time-out: nobody waits for it any more.
          reject(error)
        }
      },
      (error: unknown) => {
        endTimer()
        // After the time-out a rejection says nothing that was not assumed already.
        if (waiting) fail(error)
      },
    )
  })
}

/**
 * Calls `run` `delayMs` after `fromMs`, and a few turns of the event loop later if the loop was blocked.
 *
 * After a block timers run before sockets are read: without that patience an answer that has long
 * arrived would be taken for none.
 */
export function patientTimer(
  { seams }: Context,
  agenda: Agenda,
  delayMs: number,
  fromMs: number,
  run: () => void,
): () => void {
  const dueMs = fromMs + delayMs
  let entry = agenda.add(dueMs, () => {
    const nowMs = seams.nowMs()
    if (nowMs - dueMs < BLOCKED_MS) return run()
    entry = agenda.add(nowMs + TURNS_MS, run)
  })
  return () => agenda.cancel(entry)
}

/** Bugs, as opposed to failures of a store: never retried, never given another name. */
export function isBug(error: unknown): boolean {
  return (
    error instanceof InvariantError ||
    error instanceof TypeError ||
    error instanceof RangeError ||
    error instanceof ReferenceError ||
    error instanceof SyntaxError
  )
}

/** What waiting cannot mend: the caller must know at once. */
export function isFinal(error: unknown): boolean {
  if (error instanceof BackendUnavailableError) return error.why === 'no-permission'
  return error instanceof NotALockError || error instanceof InvalidArgumentError || isBug(error)
}

/** Whatever a store's client rejects with, as one of our errors: unclassified means unknown. */
export function asLockError(error: unknown, what: string): LockError {
  if (error instanceof LockError) return error
  const message = error instanceof Error ? error.message : inspect(error)
  return new OutcomeUnknownError(`${what} failed: ${message}`, { cause: error })
}
