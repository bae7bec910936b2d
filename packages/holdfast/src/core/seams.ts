/**
 * What the engine and the backends need of the outside world, in one replaceable object.
 *
 * Constructor arguments, never globals: the simulation runs several processes, each with clocks of
 * its own, in one JavaScript realm. Not exported from the package.
 */
import { after, bootMs, type CancelTimer, monotonicMs, wallMs } from './clock.ts'
import { randomJitter, randomOwner } from './owner.ts'

export interface Seams {
  /** Monotonic milliseconds. */
  nowMs(): number
  /**
   * Milliseconds that also count suspended time, where the platform can tell.
   *
   * @param nowMs What `nowMs()` has just said, to whom that saves a reading.
   */
  bootMs(nowMs?: number): number
  /** Milliseconds since 1970. */
  wallMs(): number
  /** See `after` in clock.ts. */
  after(delayMs: number, fn: () => void, keepsAlive?: boolean): CancelTimer
  /** A fresh owner: 22 characters, base64url. */
  nonce(): string
  /** Uniform in [0, 1). */
  jitter(): number
}

export const systemSeams: Seams = {
  nowMs: monotonicMs,
  bootMs,
  wallMs,
  after,
  nonce: randomOwner,
  jitter: randomJitter,
}

/** The public, smaller clock that a caller may pass to `createLocks`. */
export interface Clock {
  /** Monotonic milliseconds. */
  nowMs(): number
  /** Calls `fn` once after `delayMs` milliseconds; the result cancels it. */
  after(delayMs: number, fn: () => void): () => void
}

/**
 * A caller's clock cannot tell suspended time, so it counts as its own boot clock; and its wall clock
 * goes with it, or real time that passes beside a clock that stands would look like a sleep.
 */
export function seamsWithClock(clock: Clock): Seams {
  // Not read before the clock has been checked.
  let wallLeadMs: number | null = null
  return {
    ...systemSeams,
    nowMs: () => clock.nowMs(),
    bootMs: () => clock.nowMs(),
    wallMs: () => {
      wallLeadMs ??= systemSeams.wallMs() - clock.nowMs()
      return clock.nowMs() + wallLeadMs
    },
    after: (delayMs, fn) => clock.after(delayMs, fn),
  }
}

const adopters = new WeakMap<object, (seams: Seams) => void>()

/**
 * A backend of ours registers here how to take other seams, because a grant's `sentAtMs` is read
 * on the backend's clock and compared on the engine's: the two must be one clock.
 */
export function onAdoptSeams(backend: object, adopt: (seams: Seams) => void): void {
  adopters.set(backend, adopt)
}

/** Gives `seams` to a backend that registered; a third party's backend keeps its own clock. */
export function adoptSeams(backend: object, seams: Seams): void {
  adopters.get(backend)?.(seams)
}
