/**
 * Contenders that wait, in one line for each lock name.
 *
 * Guarantees:
 * Q1. First in, first out within a process; only the head of a line asks the store.
 * Q2. A contender settles exactly once, at its own deadline or abort at the latest, whatever the store
 *     does; an attempt in flight for it is then undone.
 * Q3. A wake-up is a hint; a poll at most 1.25 s apart is the guarantee.
 * Q4. While a lease of this very process holds the name, the head leaves the store in peace: it is
 *     passed the grant, or woken when that lease ends. It still polls, because an operator may have
 *     freed the name without our holder knowing yet.
 *
 * Retry: `d + random(0 … max(10 ms, d / 4))` with `d = min(what the store says is left, 1 s)`; capped
 * first and jittered after, so that the spread stays when contention is worst. After errors d
 * doubles from 50 ms to 2 s. After a hint: 0 to 10 ms, so that contenders of several processes do
 * not all ask at once.
 */
import type { LockError } from '../core/errors.ts'
import type { Settings } from '../core/options.ts'
import { started } from '../core/started.ts'
import { onAbort } from './aborts.ts'
import { type Answer, Attempt, handOut, type Refusal } from './attempt.ts'
import { Contender } from './contender.ts'
import type { Context } from './context.ts'
import type { HeldLease } from './lease.ts'
import { Line } from './line.ts'
import { Names } from './names.ts'
import { isFinal } from './request.ts'
import { timedOut } from './timed-out.ts'

const POLL_MS_MIN = 1
const POLL_MS_MAX = 1000
const POLL_SPREAD_MS_MIN = 10
const POLL_SPREAD_SHARE = 0.25
const ERROR_DELAY_MS_FIRST = 50
const ERROR_DELAY_MS_MAX = 2000
const HINT_SPREAD_MS = 10
/** After a foreign process was let through, our own head waits this long to twice as long, once. */
const FREED_DELAY_MS = 10
/** A backend whose wake-ups fail is not asked for one again before this. */
const HINT_PAUSE_MS = 1000
/** A store with a queue keeps a place no longer than that for nobody. */
const PLACE_MS = 2000
/** Hand-overs within the process after a foreign contender was seen: at most the line as it stood. */
const SPARE_MAX = 64

export class Waits {
  readonly #context: () => Context
  readonly #lines = new Names<Line>()
  /**
   * How many hand-overs of a name may still stay here while another process waits. Outlives the
   * line: two callers who take turns would otherwise begin a new count each time, for ever.
   */
  readonly #spares = new Map<string, number>()

  /** @param context A function, because the context and its parts know each other. */
  constructor(context: () => Context) {
    this.#context = context
  }

  /** How many contenders stand in the line of `lockName`. */
  count(lockName: string): number {
    return this.#lines.get(lockName)?.count ?? 0
  }

  /** Resolves with a lease, or rejects at the contender's deadline, abort, or a final error. */
  enter(lockName: string, settings: Settings): Promise<HeldLease> {
    const { seams } = this.#context()
    return new Promise((resolve, reject) => {
      const contender = new Contender(lockName, settings, seams.nowMs(), resolve, reject)
      const { waitMs, signal } = settings
      // First, because it sends the request: the rest is done while the store works.
      const attempt = this.#stand(contender)
      try {
        // An attempt that ends sooner by itself needs no second timer.
        if (attempt === null || attempt.timeoutMs > waitMs) this.#bound(contender)
        if (signal) {
          contender.unlisten = onAbort(signal, () => this.#leave(contender, signal.reason))
        }
      } catch (error) {
        // A caller's clock threw: whoever is told of that must not be granted anything later.
        this.#leave(contender, error)
      }
    })
  }

  /** Q2. */
  #bound(contender: Contender): void {
    const { waitMs } = contender.settings
    if (contender.settled || contender.deadline || waitMs === Number.POSITIVE_INFINITY) return
    contender.deadline = this.#context().waiting.add(contender.startedAtMs + waitMs, () => {
      contender.deadline = null
      const line = this.#lines.get(contender.lockName)
      this.#leave(contender, timedOut(this.#context(), line, contender))
    })
  }

  /**
   * At the end of the line of its name, which begins here if there is none.
   *
   * @returns Its attempt, if it could ask at once.
   */
  #stand(contender: Contender): Attempt | null {
    const { seams, held } = this.#context()
    const { lockName } = contender
    const line = this.#lines.get(lockName)
    if (line) {
      line.append(contender)
      return null
    }
    const fresh = new Line(this.#context(), lockName)
    fresh.append(contender)
    // Before the lease is looked at: that may end it, and whoever is told may ask for the name too.
    this.#lines.set(lockName, fresh)
    this.#guarded(fresh, () => {
      const local = held.get(lockName)
      // Q4.
      if (local?.isHeld) {
        fresh.progress.note(local.fencingToken, seams.nowMs())
        fresh.askAt(seams.nowMs() + this.#pollMs(null))
      }
      this.#next(fresh)
    })
    return fresh.attempt
  }

  /** The head of a line, for a hand-over: then `grantTaken` or `putBack` must follow. */
  take(lockName: string): Contender | null {
    const line = this.#lines.get(lockName)
    if (line === null || line.attempt !== null || line.taken !== null) return null
    const head = line.first
    if (head === null) return null
    line.remove(head)
    line.taken = head
    return head
  }

  grantTaken(contender: Contender, lease: HeldLease): void {
    const line = this.#lines.get(contender.lockName)
    if (line) {
      line.taken = null
      line.mayHavePlace = false
    }
    this.#grant(contender, lease)
    if (line) this.#guarded(line, () => this.#waitFor(line, lease))
  }

  /** `freed`: the store let another process through. `failed`: nobody knows who has it. */
  putBack(contender: Contender, why: 'ended' | 'freed' | 'failed'): void {
    const line = this.#lines.get(contender.lockName)
    if (line === null) return
    const { seams } = this.#context()
    line.taken = null
    if (!contender.settled) line.prepend(contender)
    if (why === 'freed') {
      this.#spares.delete(contender.lockName)
      // It would tell us of our own release, before the other process has had its turn.
      line.deafen()
    }
    const delayMs =
      why === 'ended' ? 0 : why === 'freed' ? this.#freedDelayMs() : ERROR_DELAY_MS_FIRST
    this.#guarded(line, () => line.askAt(seams.nowMs() + delayMs))
  }

  /** A lease of this process on that name is over: its own line need not wait for a poll. */
  ended(lockName: string): void {
    this.#spares.delete(lockName)
    this.#lines.get(lockName)?.askBy(this.#context().seams.nowMs())
  }

  /** What an attempt may have left in the store is gone: it may have stood in our own way. */
  undone(lockName: string): void {
    const line = this.#lines.get(lockName)
    // A store that fails is asked again when the error's delay is over, not sooner.
    if (line === null || line.failure !== null) return
    const { seams, held } = this.#context()
    if (!held.get(lockName)?.isHeld) line.askBy(seams.nowMs())
  }

  /** Whether the next hand-over may stay in this process although another process waits. */
  mayKeep(lockName: string): boolean {
    const spare = this.#spares.get(lockName)
    return spare === undefined || spare > 0
  }

  /** A hand-over stayed here; `wanted` is whether another process waits. */
  noteWanted(lockName: string, wanted: boolean): void {
    const spare = this.#spares.get(lockName)
    if (!wanted) this.#spares.delete(lockName)
    else if (spare !== undefined) this.#spares.set(lockName, spare - 1)
    else this.#spares.set(lockName, Math.min(SPARE_MAX, this.count(lockName)))
  }

  /** Everybody leaves. */
  close(error: () => LockError): void {
    for (const line of this.#lines.values()) {
      // To whom a grant is on its way: when it arrives it is passed on, or released.
      if (line.taken !== null) this.#leave(line.taken, error())
      for (let head = line.first; head !== null; head = line.first) this.#leave(head, error())
    }
  }

  #serve(line: Line): void {
    this.#guarded(line, () => this.#next(line))
  }

  /** The head asks, or waits until it may; a line in which nobody is left ends. */
  #next(line: Line): void {
    if (line.first === null && line.taken === null) {
      line.deafen()
      this.#lines.remove(line.lockName, line)
      this.#giveUpPlace(line)
      return
    }
    const { seams } = this.#context()
    const waitMs = line.taken !== null ? Number.POSITIVE_INFINITY : line.dueMs - seams.nowMs()
    if (waitMs > 0) line.park(waitMs, () => this.#serve(line))
    else this.#ask(line, line.first as Contender)
  }

  #guarded(line: Line, act: () => void): void {
    try {
      act()
    } catch (error) {
      this.#abandon(line, error)
    }
  }

  /** Others would wait for us, who wait no more. */
  #giveUpPlace({ lockName, mayHavePlace }: Line): void {
    const { backend, seams, undo, waiter } = this.#context()
    if (!mayHavePlace || backend.stopWaiting === undefined) return
    const run = async (): Promise<void> => backend.stopWaiting?.(lockName, waiter)
    undo.keepTrying(run, seams.nowMs() + PLACE_MS)
  }

  /** A bug of ours: those who wait are told, and those who come find a line that is served. */
  #abandon(line: Line, error: unknown): void {
    line.deafen()
    this.#lines.remove(line.lockName, line)
    if (line.taken !== null) this.#leave(line.taken, error)
    for (let head = line.first; head !== null; head = line.first) {
      line.remove(head)
      this.#leave(head, error)
    }
  }

  /** One attempt for the head of the line. */
  #ask(line: Line, head: Contender): void {
    const context = this.#context()
    // A mark of our own would hide a foreign one from our own holder.
    const marks = !context.held.get(line.lockName)?.isHeld
    const caller = { waits: marks, startedAtMs: head.startedAtMs }
    line.mayHavePlace ||= marks
    const ended = (act: () => void): void => {
      // In one turn with the answer: what ends in between would be taken for older than it.
      line.attempt = null
      this.#guarded(line, () => {
        act()
        this.#next(line)
      })
    }
    line.attempt = new Attempt(context, line.lockName, head.settings, caller, {
      answered: (answer) => ended(() => this.#onAnswer(line, head, answer)),
      failed: (error) => ended(() => this.#onFailure(line, head, error)),
    })
    line.askedAtMs = context.seams.nowMs()
    line.missedWake = false
  }

  #onFailure(line: Line, head: Contender, error: unknown): void {
    // It may be about this contender's options alone, so the next one asks at once.
    if (isFinal(error)) return this.#leave(head, error)
    if (head.settled) return
    const { seams } = this.#context()
    line.failure = error
    line.refusal = null
    const delayMs = Math.min(ERROR_DELAY_MS_FIRST * 2 ** line.failures, ERROR_DELAY_MS_MAX)
    line.failures += 1
    line.askAt(seams.nowMs() + delayMs * (1 + POLL_SPREAD_SHARE * seams.jitter()))
    this.#bound(head)
  }

  #onAnswer(line: Line, head: Contender, answer: Answer): void {
    const { seams } = this.#context()
    line.failure = null
    line.failures = 0
    if (answer.kind === 'granted') {
      line.refusal = null
      line.mayHavePlace = false
      this.#grant(head, answer.lease)
      if (line.first !== null) this.#waitFor(line, answer.lease)
      return
    }
    this.#bound(head)
    line.refusal = answer
    line.progress.note(answer.fencingToken ?? null, seams.nowMs())
    this.#context().emitter.emit('refused', {
      lockName: line.lockName,
      waitedMs: seams.nowMs() - head.startedAtMs,
    })
    line.askAt(line.missedWake ? seams.nowMs() : seams.nowMs() + this.#pollMs(answer))
    if (!this.#context().held.get(line.lockName)) this.#listen(line)
  }

  /** For whoever stands behind a holder of this process, who has its lease already. */
  #waitFor(line: Line, { fencingToken }: HeldLease): void {
    const { seams } = this.#context()
    line.progress.note(fencingToken, seams.nowMs())
    line.askAt(seams.nowMs() + this.#pollMs(null))
  }

  /** Keeps one wake-up open for the line. */
  #listen(line: Line): void {
    const { backend, seams } = this.#context()
    if (!backend.wakeUp || line.hint !== null || seams.nowMs() < line.hintPausedUntilMs) return
    const hint = new AbortController()
    line.hint = hint
    const { scope, order } = backend.capabilities
    // Where a queue decides, only its first is woken.
    const spreadMs = scope === 'process' || order === 'queue' ? 0 : HINT_SPREAD_MS
    started(async () => backend.wakeUp?.(line.lockName, hint.signal)).then(
      () => {
        if (line.hint !== hint) return
        line.hint = null
        // A backend whose hints come without a cause must not make us ask without a pause.
        const soonestMs = line.askedAtMs + POLL_MS_MIN
        line.askBy(Math.max(seams.nowMs() + spreadMs * seams.jitter(), soonestMs))
      },
      () => {
        if (line.hint !== hint) return
        line.hint = null
        line.hintPausedUntilMs = seams.nowMs() + HINT_PAUSE_MS
      },
    )
  }

  /** Where nobody is woken, the other process comes at its next poll: less would starve it. */
  #freedDelayMs(): number {
    const { backend, seams } = this.#context()
    // In a queue it loses its turn by every millisecond that it waits.
    if (backend.capabilities.order === 'queue') return 0
    if (backend.wakeUp === undefined) return POLL_MS_MAX * (1 + POLL_SPREAD_SHARE)
    return FREED_DELAY_MS * (1 + seams.jitter())
  }

  #pollMs(refusal: Refusal | null): number {
    const leftMs = refusal?.retryAfterMs ?? POLL_MS_MAX
    // Written so that what is no number becomes the longest wait, not none.
    const d = leftMs <= POLL_MS_MAX ? Math.max(leftMs, POLL_MS_MIN) : POLL_MS_MAX
    const spread = Math.max(POLL_SPREAD_MS_MIN, d * POLL_SPREAD_SHARE)
    return d + spread * this.#context().seams.jitter()
  }

  #grant(contender: Contender, lease: HeldLease): void {
    if (contender.settled) {
      // It left while the answer was on its way: nobody will release this lease but us.
      void lease[Symbol.asyncDispose]()
      return
    }
    this.#settle(contender)
    try {
      contender.resolve(handOut(this.#context(), lease))
    } catch (error) {
      contender.reject(error)
    }
  }

  #leave(contender: Contender, error: unknown): void {
    if (contender.settled) return
    const line = this.#lines.get(contender.lockName)
    const attempt = line?.first === contender ? line.attempt : null
    this.#settle(contender)
    contender.reject(error)
    attempt?.abandon(error)
    line?.wakeIfEmpty()
  }

  #settle(contender: Contender): void {
    contender.settled = true
    if (contender.deadline) this.#context().waiting.cancel(contender.deadline)
    contender.unlisten?.()
    this.#lines.get(contender.lockName)?.remove(contender)
  }
}
