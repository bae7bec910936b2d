/**
 * Whether a process was running: a timer of its own that notices when its event loop was not served.
 *
 * What is promised is promised to a running holder. A machine with every core taken may leave a
 * process waiting for a good part of a second, which says nothing about a watchdog.
 */
import { monotonicUs } from '../../time.ts'

const TICK_MS = 10
/** Shorter ones are those of any busy machine, and not kept one by one. */
const KEPT_MS_MIN = 50

export class Pulse {
  readonly #timer: NodeJS.Timeout
  #lastUs = monotonicUs()
  #longestMs = 0
  readonly #gaps: { readonly endUs: number; readonly ms: number }[] = []
  #lostMs = 0

  constructor() {
    this.#timer = setInterval(() => this.#beat(), TICK_MS)
  }

  /** What was before does not count. */
  restart(): void {
    this.#beat()
    this.#longestMs = 0
  }

  /** The longest time since then in which nothing ran here, in whole milliseconds. */
  longestGapMs(): number {
    this.#beat()
    return Math.round(this.#longestMs)
  }

  /** The same since a moment of the clock of histories; 0: none was of 50 ms. */
  longestGapMsSince(fromUs: number): number {
    this.#beat()
    const own = this.#gaps.filter(({ endUs }) => endUs > fromUs).map(({ ms }) => ms)
    return Math.round(Math.max(0, ...own))
  }

  /** How long it was not served since the start, in all its gaps together, in milliseconds. */
  lostMs(): number {
    this.#beat()
    return this.#lostMs
  }

  stop(): void {
    clearInterval(this.#timer)
  }

  #beat(): void {
    const atUs = monotonicUs()
    const gapMs = (atUs - this.#lastUs) / 1_000
    this.#lastUs = atUs
    this.#longestMs = Math.max(this.#longestMs, gapMs)
    if (gapMs >= KEPT_MS_MIN) this.#gaps.push({ endUs: atUs, ms: gapMs })
    this.#lostMs += Math.max(0, gapMs - TICK_MS)
  }
}
