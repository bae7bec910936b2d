/**
 * A process of the simulated world: clocks of its own, and a life of its own.
 *
 * Paused (SIGSTOP, a long collection of garbage): nothing of it runs, its clocks run on, and all that
 * came due meanwhile happens when it goes on, timers before messages as in Node. Suspended with its
 * machine: the same, and the monotonic clock with its timers stands still. Dead: nothing of it runs
 * again, and what it has sent is on its way.
 */
import type { CancelTimer } from '../core/clock.ts'
import type { Seams } from '../core/seams.ts'
import type { Random } from './random.ts'
import type { Scheduler } from './scheduler.ts'

/** Not 0, so that a forgotten reading does not pass for an early one. */
const CLOCK_MS_START = 1000
const WALL_MS_START = 1_700_000_000_000
/** `/proc/uptime` has two decimals. */
const BOOT_GRAIN_MS = 10
/** A step that undoes a sleep to within 5 ms hides it for a while: core/elapsed.ts says so. */
const UNDONE_MS = 10
/** So that a timer is not asked a rounding error before its time. */
const ROUNDING_MS = 1e-6
/** Node reads sockets after its timers. */
const SOCKETS_AFTER_MS = 0.01

export class Process {
  readonly name: string
  readonly seams: Seams
  readonly scheduler: Scheduler
  /** How much faster than true time its clocks run: 1.001 gains a millisecond a second. */
  readonly rate: number
  isDead = false
  /** Whether its machine ever slept. */
  wasSuspended = false
  /** True time: since when it has run without a break. */
  awakeSinceMs = 0
  /** When each nonce was made, in true time: an attempt begins with its owner. */
  readonly bornAtMs: Map<string, number> = new Map()
  #awakeAtMs = 0
  #sleptMs = 0
  #sleep: Readonly<{ fromMs: number; untilMs: number }> | null = null
  #monotonicStepMs = 0
  #wallStepMs = 0

  constructor(name: string, scheduler: Scheduler, random: Random, rate: number) {
    this.name = name
    this.scheduler = scheduler
    this.rate = rate
    this.seams = {
      nowMs: () => this.nowMs(),
      bootMs: () => Math.floor(this.#runningMs() / BOOT_GRAIN_MS) * BOOT_GRAIN_MS,
      wallMs: () => WALL_MS_START + this.#runningMs() + this.#wallStepMs,
      after: (delayMs, fn) => this.#after(delayMs, fn),
      nonce: () => {
        const nonce = random.nonce()
        this.bornAtMs.set(nonce, scheduler.nowMs)
        return nonce
      },
      jitter: () => random.next(),
    }
  }

  /** Its monotonic clock. */
  nowMs(): number {
    return this.#runningMs() - this.#sleptUntilNowMs() * this.rate + this.#monotonicStepMs
  }

  /** How long its machine has slept so far. True milliseconds. */
  get sleptMs(): number {
    return this.#sleptUntilNowMs()
  }

  get isAwake(): boolean {
    return !this.isDead && this.scheduler.nowMs >= this.#awakeAtMs
  }

  /** Whether its notes are kept. */
  get isTraced(): boolean {
    return this.scheduler.trace !== null
  }

  /** A message arrives at `atMs` of true time. */
  deliver(atMs: number, run: () => void): void {
    this.#deliver(atMs, SOCKETS_AFTER_MS, run)
  }

  note(said: () => string): void {
    this.scheduler.note(this.name, said)
  }

  pause(forMs: number): void {
    this.note(() => `paused for ${forMs.toFixed(0)} ms`)
    this.#stand(forMs)
  }

  suspend(forMs: number): void {
    // A machine that sleeps already sleeps on; one sleep at a time is enough of the accident.
    if (this.#sleep !== null && this.scheduler.nowMs < this.#sleep.untilMs) return
    this.note(() => `suspended for ${forMs.toFixed(0)} ms`)
    this.#sleptMs = this.#sleptUntilNowMs()
    const fromMs = this.scheduler.nowMs
    this.#sleep = { fromMs, untilMs: fromMs + forMs }
    this.wasSuspended = true
    this.#stand(forMs)
  }

  die(): void {
    this.note(() => 'dies')
    this.isDead = true
  }

  /** One that would hide a sleep of its machine goes a little further: no lease promises to see that one. */
  stepWall(wantedMs: number): void {
    const sleptMs = this.#sleep === null ? 0 : this.#sleep.untilMs - this.#sleep.fromMs
    const undoes = this.#sleep !== null && Math.abs(sleptMs + wantedMs) < UNDONE_MS
    const byMs = undoes ? wantedMs - 2 * UNDONE_MS : wantedMs
    this.note(() => `wall clock steps by ${byMs.toFixed(0)} ms`)
    this.#wallStepMs += byMs
  }

  /** For a store whose clock cannot be trusted; no operating system does this to a process. */
  stepMonotonic(byMs: number): void {
    this.note(() => `clock steps by ${byMs.toFixed(0)} ms`)
    this.#monotonicStepMs += byMs
  }

  #stand(forMs: number): void {
    this.#awakeAtMs = Math.max(this.#awakeAtMs, this.scheduler.nowMs + forMs)
    this.awakeSinceMs = this.#awakeAtMs
  }

  #runningMs(): number {
    return CLOCK_MS_START + this.scheduler.nowMs * this.rate
  }

  #sleptUntilNowMs(): number {
    if (this.#sleep === null) return this.#sleptMs
    const { fromMs, untilMs } = this.#sleep
    return this.#sleptMs + Math.min(this.scheduler.nowMs, untilMs) - fromMs
  }

  #deliver(atMs: number, deferredMs: number, run: () => void): void {
    this.scheduler.at(atMs, () => {
      if (this.isDead) return
      if (this.isAwake) run()
      else this.#deliver(this.#awakeAtMs + deferredMs, deferredMs, run)
    })
  }

  #after(delayMs: number, fn: () => void): CancelTimer {
    let isOver = false
    const dueMs = this.nowMs() + Math.ceil(Math.max(0, delayMs))
    const arm = (): void => {
      const restMs = dueMs - this.nowMs()
      if (restMs === Number.POSITIVE_INFINITY) return
      const atMs = this.scheduler.nowMs + Math.max(0, restMs / this.rate) + ROUNDING_MS
      this.#deliver(atMs, 0, () => {
        if (isOver) return
        // The clock stood in between.
        if (this.nowMs() < dueMs) return arm()
        isOver = true
        fn()
      })
    }
    arm()
    return () => {
      isOver = true
    }
  }
}
