/**
 * Time as a test wants it: nothing passes until the test says so, and then all of it in order.
 *
 * Guarantees: timers run in the order of (due time, insertion), each with the clock at its own due
 * time, and code that awaits between two of them has run before the second. Three clocks can be
 * steered apart, because the accidents differ: a suspended machine stops the monotonic clock only, an
 * operator steps the wall clock only, and a blocked event loop stops no clock but every timer.
 *
 * Not here: real input and output. Between two timers the real event loop turns a few times, which
 * is enough for promises and for a `setImmediate`, not for a socket.
 */
import { setImmediate as turn } from 'node:timers/promises'
import type { Options } from '../core/backend.ts'
import type { CancelTimer } from '../core/clock.ts'
import { InvalidArgumentError } from '../core/errors.ts'
import type { Clock, Seams } from '../core/seams.ts'

export type VirtualClockOptions = Options<{
  /**
   * An integer of 32 bits, 1 by default. Decides jitter and owners: clocks of one simulation need
   * different seeds, or two attempts would have one owner.
   */
  seed: number
  /** Instead of seeded jitter this number, at least 0 and below 1. */
  jitter: number
  /** Where the wall clock begins: milliseconds since 1970, 1,700,000,000,000 by default. */
  wallMs: number
}>

/** A clock for `createLocks(backend, { clock })` that moves only when told to. */
export interface VirtualClock extends Clock {
  /** Milliseconds that also count suspended time. */
  bootMs(): number
  /** Milliseconds since 1970. */
  wallMs(): number
  /**
   * Lets time pass and runs what becomes due, in order. Calls queue up behind each other.
   *
   * @param ms Milliseconds, at least 0; 0 runs what is due already.
   * @returns When the last due timer and what it woke have run. Rejects with what a timer threw.
   */
  advance(ms: number): Promise<void>
  /** The machine sleeps: boot and wall clock go on, the monotonic clock and all timers stand. */
  suspend(ms: number): void
  /** The wall clock alone jumps, by a negative number backwards. */
  stepWall(ms: number): void
  /** The event loop is blocked: every clock goes on, no timer runs before the next `advance`. */
  block(ms: number): void
  /** Timers that are armed; one with an infinite delay counts until it is cancelled. */
  readonly pendingCount: number
}

/** Well in the past of any real clock, so that a mixture with a real one shows at once. */
const WALL_MS_DEFAULT = 1_700_000_000_000
/** Not 0, so that a forgotten reading (0) does not pass for an early one. */
const MONOTONIC_MS_START = 1000
/** Turns of the real event loop between two timers. */
const TURNS = 3
/** Timers at one point in time: above it they arm each other without end. */
const TIMERS_AT_ONCE_MAX = 30_000

const seamsByClock = new WeakMap<Clock, Seams>()

/**
 * A clock that moves only when told to, for `createLocks(backend, { clock })` and for `fakeLocks`.
 *
 * @throws InvalidArgumentError naming the option that is wrong.
 */
export function createVirtualClock(options: VirtualClockOptions = {}): VirtualClock {
  const clock = new SteeredClock(options)
  const seed = options.seed ?? 1
  const words = randomWords(seed)
  let nonceCount = 0
  seamsByClock.set(clock, {
    nowMs: () => clock.nowMs(),
    bootMs: () => clock.bootMs(),
    wallMs: () => clock.wallMs(),
    after: (delayMs, fn) => clock.after(delayMs, fn),
    nonce: () => {
      nonceCount += 1
      return nonceFrom(seed, nonceCount)
    },
    jitter: () => options.jitter ?? words() / 2 ** 32,
  })
  return clock
}

/** Undefined for a clock that was not made here. */
export function findSeams(clock: Clock): Seams | undefined {
  return seamsByClock.get(clock)
}

/** All that the engine and the backends need, taken from one virtual clock. */
export function seamsOf(clock: Clock): Seams {
  const seams = findSeams(clock)
  if (!seams) throw new InvalidArgumentError('clock', clock, 'a clock of createVirtualClock()')
  return seams
}

type Timer = { readonly atMs: number; readonly id: number; readonly fn: () => void }

class SteeredClock implements VirtualClock {
  #nowMs = MONOTONIC_MS_START
  #suspendedMs = 0
  #wallOffsetMs: number
  #lastId = 0
  /** Sorted by (atMs, id). */
  readonly #timers: Timer[] = []
  #running: Promise<void> = Promise.resolve()

  constructor({ seed = 1, jitter = 0, wallMs = WALL_MS_DEFAULT }: VirtualClockOptions) {
    if (seed !== (seed | 0)) throw new InvalidArgumentError('seed', seed, 'an integer of 32 bits')
    if (!(jitter >= 0 && jitter < 1)) {
      throw new InvalidArgumentError('jitter', jitter, 'a number from 0 to below 1')
    }
    this.#wallOffsetMs = finite('wallMs', wallMs, 0) - MONOTONIC_MS_START
  }

  nowMs(): number {
    return this.#nowMs
  }

  bootMs(): number {
    return this.#nowMs + this.#suspendedMs
  }

  wallMs(): number {
    return this.#nowMs + this.#suspendedMs + this.#wallOffsetMs
  }

  get pendingCount(): number {
    return this.#timers.length
  }

  /** Rounds up to whole milliseconds as the real clock does: a timer must never be early. */
  after(delayMs: number, fn: () => void): CancelTimer {
    if (typeof delayMs !== 'number' || Number.isNaN(delayMs)) {
      throw new InvalidArgumentError('delayMs', delayMs, 'a number of milliseconds, or Infinity')
    }
    this.#lastId += 1
    const timer = { atMs: this.#nowMs + Math.ceil(Math.max(0, delayMs)), id: this.#lastId, fn }
    this.#timers.splice(this.#placeOf(timer), 0, timer)
    return () => {
      const place = this.#placeOf(timer)
      if (this.#timers[place] === timer) this.#timers.splice(place, 1)
    }
  }

  advance(ms: number): Promise<void> {
    finite('ms', ms, 0)
    const ours = this.#running.then(() => this.#run(ms))
    // A timer that threw ends its own call, not the next one.
    this.#running = ours.catch(() => undefined)
    return ours
  }

  suspend(ms: number): void {
    this.#suspendedMs += finite('ms', ms, 0)
  }

  stepWall(ms: number): void {
    this.#wallOffsetMs += finite('ms', ms, Number.NEGATIVE_INFINITY)
  }

  block(ms: number): void {
    this.#nowMs += finite('ms', ms, 0)
  }

  async #run(ms: number): Promise<void> {
    const untilMs = this.#nowMs + ms
    await settle()
    let count = 0
    for (;;) {
      const timer = this.#timers[0]
      if (timer === undefined || timer.atMs > Math.max(untilMs, this.#nowMs)) break
      count = timer.atMs > this.#nowMs ? 1 : count + 1
      if (count > TIMERS_AT_ONCE_MAX) {
        throw new Error(`${TIMERS_AT_ONCE_MAX} timers ran and no time passed: they arm each other`)
      }
      this.#timers.shift()
      // A timer may be overdue after block(), and time never goes back.
      this.#nowMs = Math.max(this.#nowMs, timer.atMs)
      timer.fn()
      await settle()
    }
    this.#nowMs = Math.max(this.#nowMs, untilMs)
    await settle()
  }

  /** The first place whose timer is not before `timer`. */
  #placeOf(timer: Timer): number {
    let low = 0
    let high = this.#timers.length
    while (low < high) {
      const middle = (low + high) >>> 1
      const other = this.#timers[middle] as Timer
      const before = other.atMs < timer.atMs || (other.atMs === timer.atMs && other.id < timer.id)
      if (before) low = middle + 1
      else high = middle
    }
    return low
  }
}

async function settle(): Promise<void> {
  for (let count = 0; count < TURNS; count++) await turn()
}

function finite(option: string, value: number, min: number): number {
  if (typeof value !== 'number' || !Number.isFinite(value) || value < min) {
    throw new InvalidArgumentError(option, value, min === 0 ? 'finite, at least 0' : 'finite')
  }
  return value
}

/**
 * Uniform 32-bit words from a seed: a Weyl sequence (an odd step, so all 2^32 states come by)
 * through an invertible mix, so that no word repeats before all have been seen.
 */
export function randomWords(seed: number): () => number {
  let state = seed | 0
  return () => {
    state = (state + 0x9e3779b9) | 0
    let word = state
    word = Math.imul(word ^ (word >>> 16), 0x85ebca6b)
    word = Math.imul(word ^ (word >>> 13), 0xc2b2ae35)
    return (word ^ (word >>> 16)) >>> 0
  }
}

/** In the shape of a real owner; seed and count stand in it, so that no two can be equal. */
export function nonceFrom(seed: number, count: number): string {
  const bytes = Buffer.alloc(16)
  bytes.writeInt32BE(seed | 0, 0)
  bytes.writeUInt32BE(count, 4)
  const words = randomWords(seed ^ count)
  bytes.writeUInt32BE(words(), 8)
  bytes.writeUInt32BE(words(), 12)
  return bytes.toString('base64url')
}
