/**
 * Whether a lock changes hands while contenders wait for it, told by fencing tokens: each grant has
 * one of its own. What is counted is what this process saw, so it is a lower bound: grants between
 * two looks at the store count as one.
 */
export class Progress {
  #token: bigint | null = null
  #sinceMs = 0
  #seenMs = 0
  #handOvers = 0

  /** How often the holder was another one than before, since the line began. */
  get handOvers(): number {
    return this.#handOvers
  }

  /** Milliseconds between the first and the last look that found the present holder; null: unknown. */
  get heldForMs(): number | null {
    return this.#token === null ? null : this.#seenMs - this.#sinceMs
  }

  /**
   * For the error of a wait that is over.
   *
   * @param before How many hand-overs were seen before that wait.
   */
  told(before = 0): { handOvers: number | null; heldForMs: number | null } {
    const { heldForMs } = this
    const seen = this.#handOvers - before
    return { handOvers: heldForMs === null && seen === 0 ? null : seen, heldForMs }
  }

  /** @param token Of the holder found; null: a holder without one, or nobody says. */
  note(token: bigint | null, nowMs: number): void {
    this.#seenMs = nowMs
    if (token === this.#token) return
    if (this.#token !== null && token !== null) this.#handOvers += 1
    this.#token = token
    this.#sinceMs = nowMs
  }
}
