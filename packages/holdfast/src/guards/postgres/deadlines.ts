/** One timer for everything that guarded calls wait for. */
import type { CancelTimer } from '../../core/clock.ts'
import type { Seams } from '../../core/seams.ts'

/** One wait; `deadlines.start` puts it on the list, `deadlines.stop` takes it off. */
export interface Wait {
  untilMs: number
  /** It took too long. */
  onEnd: () => void
}

/**
 * Calls `onEnd` of every wait that takes too long, at its time.
 *
 * Nearly every wait ends early, and the next one ends later: so the timer of one that is over is left
 * to fire for nothing, instead of being cancelled and armed anew two or three times in each
 * transaction. It does not keep the process alive: the connection that is waited for does.
 */
export class Deadlines {
  readonly #seams: Seams
  readonly #waits = new Set<Wait>()
  /** When the timer fires; Infinity: there is none. */
  #firesAtMs = Number.POSITIVE_INFINITY
  #cancelTimer: CancelTimer = () => undefined

  constructor(seams: Seams) {
    this.#seams = seams
  }

  nowMs(): number {
    return this.#seams.nowMs()
  }

  start(wait: Wait, withinMs: number): void {
    wait.untilMs = this.#seams.nowMs() + withinMs
    this.#waits.add(wait)
    if (wait.untilMs < this.#firesAtMs) this.#arm(wait.untilMs, withinMs)
  }

  stop(wait: Wait): void {
    this.#waits.delete(wait)
  }

  #arm(atMs: number, delayMs: number): void {
    this.#cancelTimer()
    this.#firesAtMs = atMs
    this.#cancelTimer = this.#seams.after(delayMs, () => this.#look())
  }

  #look(): void {
    this.#firesAtMs = Number.POSITIVE_INFINITY
    const nowMs = this.#seams.nowMs()
    let nextMs = Number.POSITIVE_INFINITY
    for (const wait of this.#waits) {
      if (wait.untilMs > nowMs) {
        nextMs = Math.min(nextMs, wait.untilMs)
        continue
      }
      this.#waits.delete(wait)
      wait.onEnd()
    }
    // What `onEnd` started has armed the timer for itself.
    if (nextMs < this.#firesAtMs) this.#arm(nextMs, nextMs - nowMs)
  }
}
