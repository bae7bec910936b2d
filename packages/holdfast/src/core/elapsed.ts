/**
 * How much time has passed since a request left, suspended time included.
 *
 * Guarantee: never less than the monotonic delta. On Linux a suspend shows as a boot-clock delta
 * that is larger by more than that clock's grain (10 ms, at both ends of the interval); then the boot
 * delta plus one grain counts. A smaller difference is the grain itself and is ignored, or every
 * lease would lose 10 ms. A paused virtual machine stops both clocks: nothing here can see that.
 */
import type { Seams } from './seams.ts'

/** One reading of both clocks, taken before a request leaves. */
export interface Instant {
  readonly nowMs: number
  readonly bootMs: number
}

const BOOT_GRAIN_MS = 10
const SUSPEND_SEEN_MS = 2 * BOOT_GRAIN_MS

export function instant(seams: Seams): Instant {
  return { nowMs: seams.nowMs(), bootMs: seams.bootMs() }
}

/** Milliseconds between two readings, by the rule in this file's header. */
export function elapsedMs(from: Instant, to: Instant): number {
  const monotonic = to.nowMs - from.nowMs
  const boot = to.bootMs - from.bootMs
  return boot - monotonic <= SUSPEND_SEEN_MS ? monotonic : boot + BOOT_GRAIN_MS
}
