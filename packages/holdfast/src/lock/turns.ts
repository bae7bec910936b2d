/**
 * Contenders on a store with a queue of its own, in which each has a place.
 *
 * Guarantees:
 * U1. At most 64 contenders of a process and name stand in the store's queue, the others behind them,
 *     first in, first out: a process with ten thousand callers must not fill the store.
 * U2. A contender settles exactly once, at its own deadline or abort at the latest, whatever the store
 *     does. What it asked for is then cancelled, and cancelled again should a grant arrive late. That
 *     the lock is held is said only by a store that answered the last look at the queue.
 * U3. After an error it asks again, under a fresh owner, with delays that double from 50 ms to 2 s.
 *
 * Contenders of stores without a queue wait in wait.ts.
 */
import type { AcquireResult } from '../core/backend.ts'
import {
  BackendUnavailableError,
  type LockError,
  LockHeldError,
  OutcomeUnknownError,
} from '../core/errors.ts'
import type { Settings } from '../core/options.ts'
import { started } from '../core/started.ts'
import { onAbort } from './aborts.ts'
import type { Entry } from './agenda.ts'
import { type Asked, accept, ask, handOut, type Refusal } from './attempt.ts'
import { Chain, type Link } from './chain.ts'
import type { Context } from './context.ts'
import type { HeldLease } from './lease.ts'
import { Progress } from './progress.ts'
import { asLockError, isBug, isFinal } from './request.ts'

const STANDING_MAX = 64
const ERROR_DELAY_MS_FIRST = 50
const ERROR_DELAY_MS_MAX = 2000
const ERROR_SPREAD_SHARE = 0.25

interface Name {
  readonly turns: Set<Turn>
  standing: number
  readonly behind: Chain<Turn>
  /** Who heard of the store last: those who were never told by it know what this one knows. */
  informed: Turn | null
}

interface Turn extends Link<Turn> {
  readonly lockName: string
  readonly name: Name
  readonly settings: Settings
  readonly startedAtMs: number
  readonly resolve: (lease: HeldLease) => void
  readonly reject: (error: unknown) => void
  isSettled: boolean
  isStanding: boolean
  asked: Asked | null
  controller: AbortController | null
  refusal: Refusal | null
  readonly progress: Progress
  failure: LockError | null
  failures: number
  deadline: Entry | null
  retry: Entry | null
  unlisten: (() => void) | null
}

export class Turns {
  readonly #context: () => Context
  readonly #names = new Map<string, Name>()

  /** @param context A function, because the context and its parts know each other. */
  constructor(context: () => Context) {
    this.#context = context
  }

  /** Resolves with a lease, or rejects at the contender's deadline, abort, or a final error. */
  enter(lockName: string, settings: Settings): Promise<HeldLease> {
    const { seams } = this.#context()
    return new Promise((resolve, reject) => {
      const name = this.#names.get(lockName) ?? {
        turns: new Set(),
        standing: 0,
        behind: new Chain<Turn>(),
        informed: null,
      }
      this.#names.set(lockName, name)
      // No spreads: an object made of three takes 200 times as long, and is slow to read.
      const turn: Turn = {
        lockName,
        name,
        settings,
        startedAtMs: seams.nowMs(),
        resolve,
        reject,
        isSettled: false,
        isStanding: false,
        asked: null,
        controller: null,
        refusal: null,
        progress: new Progress(),
        failure: null,
        failures: 0,
        deadline: null,
        retry: null,
        unlisten: null,
        previous: null,
        next: null,
      }
      name.turns.add(turn)
      try {
        if (name.standing < STANDING_MAX) this.#stand(turn)
        else name.behind.append(turn)
        this.#bound(turn)
      } catch (error) {
        // A caller's clock threw: whoever is told of that must not be granted anything later.
        this.#leave(turn, error)
      }
    })
  }

  /** Everybody leaves. */
  close(error: () => LockError): void {
    for (const { turns } of this.#names.values()) {
      // The last ones first: whoever leaves the store's queue would let the next one in there.
      for (const turn of [...turns].reverse()) this.#leave(turn, error())
    }
  }

  #bound(turn: Turn): void {
    const { waitMs, signal } = turn.settings
    if (turn.isSettled) return
    if (waitMs !== Number.POSITIVE_INFINITY) {
      turn.deadline = this.#context().waiting.add(turn.startedAtMs + waitMs, () => {
        turn.deadline = null
        this.#leave(turn, this.#timedOut(turn))
      })
    }
    if (signal) turn.unlisten = onAbort(signal, () => this.#leave(turn, signal.reason))
  }

  #stand(turn: Turn): void {
    turn.isStanding = true
    turn.name.standing += 1
    this.#ask(turn)
  }

  /** One owner, and one place in the store. */
  #ask(turn: Turn): void {
    const context = this.#context()
    const { backend, emitter, seams } = context
    const { lockName, settings, startedAtMs } = turn
    const asked = ask(context, lockName, settings, { waits: true, startedAtMs })
    const controller = new AbortController()
    turn.asked = asked
    turn.controller = controller
    let isTold = false
    const refused = (refusal: Refusal): void => {
      if (turn.isSettled || turn.asked !== asked) return
      turn.refusal = refusal
      turn.failure = null
      turn.failures = 0
      turn.name.informed = turn
      turn.progress.note(refusal.fencingToken ?? null, seams.nowMs())
      if (isTold) return
      isTold = true
      emitter.emit('refused', { lockName, waitedMs: seams.nowMs() - startedAtMs })
    }
    const unanswered = (error: unknown): void => {
      if (turn.isSettled || turn.asked !== asked) return
      this.#failed(turn, error)
    }
    const standing = async (): Promise<AcquireResult> =>
      backend.acquireInTurn?.(asked.request, controller.signal, refused, unanswered) ??
      Promise.reject(new TypeError('the backend has no acquireInTurn'))
    started(standing).then(
      (result) => this.#onResult(turn, asked, result),
      (error: unknown) => this.#onError(turn, asked, error),
    )
  }

  #onResult(turn: Turn, asked: Asked, result: AcquireResult): void {
    // U2: nobody waits for it any more.
    if (turn.isSettled) return result?.kind === 'granted' ? this.#cancel(asked) : undefined
    turn.asked = null
    if (result.kind !== 'granted') return this.#askAgain(turn)
    let lease: HeldLease | null
    try {
      lease = accept(this.#context(), asked, result.grant)
    } catch (error) {
      this.#cancel(asked)
      return this.#leave(turn, error)
    }
    if (lease === null) {
      this.#cancel(asked)
      return this.#askAgain(turn)
    }
    this.#settle(turn)
    try {
      turn.resolve(handOut(this.#context(), lease))
    } catch (error) {
      turn.reject(error)
    }
  }

  #onError(turn: Turn, asked: Asked, error: unknown): void {
    if (turn.isSettled) return
    turn.asked = null
    if (!(error instanceof BackendUnavailableError)) this.#cancel(asked)
    if (isFinal(error))
      return this.#leave(turn, isBug(error) ? error : asLockError(error, 'acquire'))
    this.#failed(turn, error)
    this.#askAgain(turn)
  }

  #failed(turn: Turn, error: unknown): void {
    turn.failure = asLockError(error, 'acquire')
    turn.refusal = null
    turn.name.informed = turn
  }

  /** U3. */
  #askAgain(turn: Turn): void {
    const { seams, waiting } = this.#context()
    const delayMs = Math.min(ERROR_DELAY_MS_FIRST * 2 ** turn.failures, ERROR_DELAY_MS_MAX)
    turn.failures += 1
    try {
      const dueMs = seams.nowMs() + delayMs * (1 + ERROR_SPREAD_SHARE * seams.jitter())
      turn.retry = waiting.add(dueMs, () => {
        turn.retry = null
        this.#guarded(turn, () => this.#ask(turn))
      })
    } catch (error) {
      this.#leave(turn, error)
    }
  }

  #guarded(turn: Turn, act: () => void): void {
    try {
      act()
    } catch (error) {
      this.#leave(turn, error)
    }
  }

  #leave(turn: Turn, error: unknown): void {
    if (turn.isSettled) return
    const { asked, controller } = turn
    this.#settle(turn)
    turn.reject(error)
    if (asked === null) return
    // Before the cancel, which would otherwise find a place that is being taken again.
    controller?.abort(error)
    this.#cancel(asked)
  }

  #settle(turn: Turn): void {
    const { waiting } = this.#context()
    const { name, lockName } = turn
    turn.isSettled = true
    turn.asked = null
    if (turn.deadline) waiting.cancel(turn.deadline)
    if (turn.retry) waiting.cancel(turn.retry)
    turn.unlisten?.()
    name.turns.delete(turn)
    if (turn.isStanding) name.standing -= 1
    else name.behind.remove(turn)
    if (name.turns.size === 0) this.#names.delete(lockName)
    while (name.standing < STANDING_MAX) {
      const next = name.behind.first
      if (!next) break
      name.behind.remove(next)
      this.#guarded(next, () => this.#stand(next))
    }
  }

  #cancel({ request: { lockName, owner, ttlMs } }: Asked): void {
    this.#context().undo.cancel(lockName, owner, ttlMs)
  }

  /** What stood in the way is told by the last answer. */
  #timedOut(turn: Turn): LockError {
    const { lockName, startedAtMs, settings, name } = turn
    const isInformed = turn.failure !== null || turn.refusal !== null
    const { failure, refusal, progress } = isInformed ? turn : (name.informed ?? turn)
    if (failure) return failure
    const waitedMs = this.#context().seams.nowMs() - startedAtMs
    if (refusal) return new LockHeldError(lockName, waitedMs, refusal.holder, progress.told())
    // Never "unavailable": silence does not mean that nobody holds it.
    return new OutcomeUnknownError(`no answer within ${settings.waitMs} ms`)
  }
}
