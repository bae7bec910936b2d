/**
 * Notices that the machine slept while no holder looked at its lease.
 *
 * A sleep stops the monotonic clock, and every timer with it: a deadline's own timer then comes late
 * by as long as the sleep took, and the signal with it. So once a second, while any lease is held,
 * the clocks are compared, and if one gained on the monotonic clock every lease looks at its
 * deadline. One entry for all leases; between two beats `assertValid` and `isHeld` are right anyway.
 */
import { elapsedMs, type Instant, instant } from '../core/elapsed.ts'
import type { Context } from './context.ts'

/** A holder that ignores `assertValid` goes on this long after a wake-up, at most. */
const BEAT_MS = 1000
/** A wall clock that gained this much may have slept, where no boot clock can tell. */
export const WALL_STEP_MS = 1000

export class Pulse {
  readonly #context: () => Context
  #beats = false
  #last: Instant = { nowMs: 0, bootMs: 0 }
  #lastWallMs = 0

  /** @param context A function, because the context and its parts know each other. */
  constructor(context: () => Context) {
    this.#context = context
  }

  /** Beats until no lease is held. Does nothing while it beats. */
  start(): void {
    if (this.#beats) return
    this.#beats = true
    this.#plan()
  }

  #plan(): void {
    const { seams, agenda } = this.#context()
    this.#last = instant(seams)
    this.#lastWallMs = seams.wallMs()
    agenda.add(this.#last.nowMs + BEAT_MS, () => this.#beat())
  }

  #beat(): void {
    const { seams, leases } = this.#context()
    const now = instant(seams)
    const passedMs = now.nowMs - this.#last.nowMs
    const wallGainedMs = seams.wallMs() - this.#lastWallMs - passedMs
    if (elapsedMs(this.#last, now) > passedMs || wallGainedMs >= WALL_STEP_MS) {
      for (const lease of [...leases]) lease.remainingMs()
    }
    this.#beats = leases.length > 0
    if (this.#beats) this.#plan()
  }
}
