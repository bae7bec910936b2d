/**
 * How much time has passed since a request left, suspended time included.
 *
 * Guarantee: never less than the monotonic delta. On Linux a suspend shows as a boot-clock delta
 * that is larger by more than that clock's grain (10 ms, at both ends of the interval); then the boot
 * delta plus one grain counts. A smaller difference is the grain itself and is ignored, or every
 * lease would lose 10 ms. A paused virtual machine stops both clocks: nothing here can see that.
 */
import type { Seams } from './seams.ts'

/** Reading /proc/uptime takes microseconds, a hundred times as long as the other clocks. */
const BOOT_EVERY_MS = 100
const WALL_MOVED_MS = 5

/**
 * The same seams with a boot clock that is read at most every 100 ms of monotonic time, and at once
 * when the wall clock moved against the monotonic one by more than 5 ms.
 *
 * A suspend moves the boot clock and the wall clock alike, so it is seen by the next reading. Only a
 * step of the wall clock that undoes the suspend to within 5 ms hides it, for 100 ms at most.
 */
export function withSparingBoot(seams: Seams): Seams {
  let leadMs = 0
  let wallLeadMs = Number.NaN
  let readAtMs = Number.NEGATIVE_INFINITY
  const bootMs = (nowMs: number = seams.nowMs()): number => {
    const wallNowMs = seams.wallMs() - nowMs
    if (!(Math.abs(wallNowMs - wallLeadMs) <= WALL_MOVED_MS) || nowMs - readAtMs >= BOOT_EVERY_MS) {
      leadMs = seams.bootMs(nowMs) - nowMs
      wallLeadMs = wallNowMs
      readAtMs = nowMs
    }
    return nowMs + leadMs
  }
  return { ...seams, bootMs }
}

/** One reading of both clocks, taken before a request leaves. */
export interface Instant {
  readonly nowMs: number
  readonly bootMs: number
}

const BOOT_GRAIN_MS = 10
const SUSPEND_SEEN_MS = 2 * BOOT_GRAIN_MS

export function instant(seams: Seams): Instant {
  const nowMs = seams.nowMs()
  return { nowMs, bootMs: seams.bootMs(nowMs) }
}

/** Milliseconds between two readings, by the rule in this file's header. */
export function elapsedMs(from: Instant, to: Instant): number {
  const monotonic = to.nowMs - from.nowMs
  const boot = to.bootMs - from.bootMs
  return boot - monotonic <= SUSPEND_SEEN_MS ? monotonic : boot + BOOT_GRAIN_MS
}
