/**
 * The only caller of clocks and timers in this package.
 *
 * Guarantee: every duration that decides about a lease is measured here, so that a test or a
 * simulation can replace it as a whole, and no wall clock enters lease arithmetic.
 *
 * Sources: libuv's `uv_hrtime` is CLOCK_MONOTONIC, which stands still while a machine is suspended;
 * on Linux `os.uptime()` reads /proc/uptime, which counts suspended time (CLOCK_BOOTTIME) in steps
 * of 10 ms. Elsewhere `os.uptime()` gives no such promise, so only the monotonic clock counts there.
 */
import { uptime } from 'node:os'
import { performance } from 'node:perf_hooks'

/** Node clamps a longer delay to 1 ms, so longer ones are chained. */
export const TIMER_DELAY_MS_MAX: number = 2 ** 31 - 1

/** Cancels a timer. Calling it again, or after the timer fired, does nothing. */
export interface CancelTimer {
  (): void
  /**
   * Whether the timer keeps the process running from now on. Absent where that cannot be changed.
   * A fifth of the price of a new timer, which is why the engine keeps one for all its requests.
   */
  keepAlive?(keeps: boolean): void
}

/** Milliseconds on a clock that never goes back; the origin is arbitrary. */
export function monotonicMs(): number {
  return performance.now()
}

/** Milliseconds since boot including suspended time on Linux; elsewhere the monotonic clock. */
export const bootMs: () => number =
  process.platform === 'linux' ? () => uptime() * 1000 : monotonicMs

/** Milliseconds since 1970, for token floors and for people. Never part of a deadline. */
export function wallMs(): number {
  return Date.now()
}

/**
 * Calls `fn` once, not before `delayMs` have passed.
 *
 * @param delayMs Milliseconds; negative counts as 0. No upper bound: long delays are chained.
 * @param keepsAlive Whether the timer alone keeps the process running. A waiting caller should, a
 *   watchdog should not: a process that forgot a lease must be able to end.
 */
export function after(delayMs: number, fn: () => void, keepsAlive = false): CancelTimer {
  let timer: ReturnType<typeof setTimeout>
  let keeps = keepsAlive
  const arm = (restMs: number): void => {
    const stepMs = Math.min(Math.max(0, restMs), TIMER_DELAY_MS_MAX)
    timer = setTimeout(() => (restMs > stepMs ? arm(restMs - stepMs) : fn()), Math.ceil(stepMs))
    if (!keeps) timer.unref()
  }
  arm(delayMs)
  const cancel: CancelTimer = () => clearTimeout(timer)
  cancel.keepAlive = (wanted) => {
    keeps = wanted
    if (wanted) timer.ref()
    else timer.unref()
  }
  return cancel
}
