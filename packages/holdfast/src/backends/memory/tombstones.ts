/** A request of this process can be no later than this: the engine gives up after seconds. */
const LIFE_MS = 30_000
const SWEPT_PER_REQUEST = 8

/**
 * Owners that were cancelled, and must not be granted anything for as long as it can matter.
 *
 * None is dropped before its time, and none is refused, because an attempt that was made must be
 * undone. The bound is kept where it can be: when it is reached, no new attempt is taken.
 */
export class Tombstones {
  readonly #countMax: number
  /** Owner to end; all live equally long, so the first in the map is the first to end. */
  readonly #endsAtMs = new Map<string, number>()

  constructor(countMax: number) {
    this.#countMax = countMax
  }

  get isEmpty(): boolean {
    return this.#endsAtMs.size === 0
  }

  get isFull(): boolean {
    return this.#endsAtMs.size >= this.#countMax
  }

  has(owner: string, nowMs: number): boolean {
    const endsAtMs = this.#endsAtMs.get(owner)
    return endsAtMs !== undefined && endsAtMs > nowMs
  }

  add(owner: string, nowMs: number): void {
    // Deleted first, so that it stands last again.
    this.#endsAtMs.delete(owner)
    this.#endsAtMs.set(owner, nowMs + LIFE_MS)
  }

  /** Removes a few of those that have ended: more than one request can add. */
  sweep(nowMs: number): void {
    let count = 0
    for (const [owner, endsAtMs] of this.#endsAtMs) {
      if (endsAtMs > nowMs || count === SWEPT_PER_REQUEST) return
      this.#endsAtMs.delete(owner)
      count += 1
    }
  }
}
