/**
 * Attempts of this process whose answer is still out, and tombstones that it wrote.
 *
 * A tombstone takes some 110 bytes in Redis for its life; without a bound a store that answers too
 * late would be filled by those who give up. At the bound new attempts are refused, not cancels: an
 * attempt that was made must be undone.
 */

export const TOMBSTONE_MS_MIN = 30_000
const TOMBSTONES_MAX = 100_000
/** For an owner that this process knows nothing of: twice the default TTL. */
const TOMBSTONE_MS_UNKNOWN = 60_000
/** Ends are counted in steps of this, rounded up. */
const STEP_MS = 10_000
/** Attempts that never have an answer (a client that lost them) must not fill memory. */
const PENDING_MAX = 100_000

export class Attempts {
  readonly #tombstonesMax: number
  /** Owner to TTL in milliseconds, negative once it was cancelled: an object each would be garbage. */
  readonly #pending = new Map<string, number>()
  /** Step of the end to how many tombstones end in it. */
  readonly #endings = new Map<number, number>()
  #tombstones = 0

  constructor(tombstonesMax: number = TOMBSTONES_MAX) {
    this.#tombstonesMax = tombstonesMax
  }

  /** Whether as many tombstones stand as may. */
  isFull(nowMs: number): boolean {
    if (this.#tombstones < this.#tombstonesMax) return false
    for (const [step, count] of this.#endings) {
      if (step * STEP_MS > nowMs) continue
      this.#endings.delete(step)
      this.#tombstones -= count
    }
    return this.#tombstones >= this.#tombstonesMax
  }

  sent(owner: string, ttlMs: number): void {
    if (this.#pending.size >= PENDING_MAX) {
      // The oldest. What is lost with it is only how long its tombstone should live.
      for (const oldest of this.#pending.keys()) {
        this.#pending.delete(oldest)
        break
      }
    }
    this.#pending.set(owner, ttlMs)
  }

  /** @returns Whether the attempt was cancelled meanwhile: a grant of it must not be used. */
  answered(owner: string): boolean {
    const ttlMs = this.#pending.get(owner) ?? 0
    this.#pending.delete(owner)
    return ttlMs < 0
  }

  /** @returns How long the tombstone has to live: max(2 x ttl, 30 s), in milliseconds. */
  cancelled(owner: string, nowMs: number): number {
    const ttlMs = Math.abs(this.#pending.get(owner) ?? 0)
    if (ttlMs > 0) this.#pending.set(owner, -ttlMs)
    const lifeMs = ttlMs > 0 ? 2 * ttlMs : TOMBSTONE_MS_UNKNOWN
    return this.#count(Math.max(lifeMs, TOMBSTONE_MS_MIN), nowMs)
  }

  #count(lifeMs: number, nowMs: number): number {
    const step = Math.ceil((nowMs + lifeMs) / STEP_MS)
    this.#endings.set(step, (this.#endings.get(step) ?? 0) + 1)
    this.#tombstones += 1
    return lifeMs
  }
}
