import { BackendUnavailableError } from '../../core/errors.ts'

/** A request of this process can be no later than this: the engine gives up after seconds. */
const LIFE_MS = 30_000
const SWEPT_PER_REQUEST = 8

/** Owners that were cancelled, and must not be granted anything for as long as it can matter. */
export class Tombstones {
  readonly #countMax: number
  /** Owner to end; all live equally long, so the first in the map is the first to end. */
  readonly #endsAtMs = new Map<string, number>()

  constructor(countMax: number) {
    this.#countMax = countMax
  }

  get size(): number {
    return this.#endsAtMs.size
  }

  has(owner: string, nowMs: number): boolean {
    const endsAtMs = this.#endsAtMs.get(owner)
    return endsAtMs !== undefined && endsAtMs > nowMs
  }

  /** @throws BackendUnavailableError when full: a tombstone that lives is never dropped. */
  add(owner: string, nowMs: number): void {
    // Deleted first, so that it stands last again.
    this.#endsAtMs.delete(owner)
    if (this.#endsAtMs.size >= this.#countMax) {
      const within = `${LIFE_MS / 1000} s`
      throw new BackendUnavailableError(
        'backlog',
        `more than ${this.#countMax} attempts were cancelled within ${within}`,
      )
    }
    this.#endsAtMs.set(owner, nowMs + LIFE_MS)
  }

  sweep(nowMs: number): void {
    let count = 0
    for (const [owner, endsAtMs] of this.#endsAtMs) {
      if (endsAtMs > nowMs || count === SWEPT_PER_REQUEST) return
      this.#endsAtMs.delete(owner)
      count += 1
    }
  }
}
