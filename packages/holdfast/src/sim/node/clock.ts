/** The wall clock of one node: true time, with an error of its own. */

/** A rate within 1 % of true time is what the engine allows for. */
const RATE_MIN = 0.5
const RATE_MAX = 2

export class NodeClock {
  readonly #trueMs: () => number
  /** Where the present rate began. */
  #sinceMs: number
  #atSinceUs: number
  #rate = 1

  /**
   * @param trueMs Milliseconds that pass for everybody.
   * @param startUs What the node's clock shows now, microseconds since 1970.
   */
  constructor(trueMs: () => number, startUs: number) {
    this.#trueMs = trueMs
    this.#sinceMs = trueMs()
    this.#atSinceUs = startUs
  }

  /** Microseconds since 1970, whole: below 2^53 for the next two centuries. */
  nowUs(): number {
    const passedMs = this.#trueMs() - this.#sinceMs
    return Math.floor(this.#atSinceUs + passedMs * 1000 * this.#rate)
  }

  /** The clock jumps, by a negative number backwards. */
  step(us: number): void {
    this.#rebase(this.#rate)
    this.#atSinceUs += us
  }

  /** @param rate Microseconds of this clock for one of true time: 0.5 to 2. */
  setRate(rate: number): void {
    if (!(rate >= RATE_MIN && rate <= RATE_MAX)) {
      throw new RangeError(`a node's clock runs at ${RATE_MIN} to ${RATE_MAX}, not at ${rate}`)
    }
    this.#rebase(rate)
  }

  #rebase(rate: number): void {
    this.#atSinceUs = this.nowUs()
    this.#sinceMs = this.#trueMs()
    this.#rate = rate
  }
}
