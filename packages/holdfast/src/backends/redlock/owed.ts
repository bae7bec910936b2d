/**
 * What a node has still to be told: cancels and releases that it did not answer.
 *
 * Guarantee: the newest 1,000 are kept, one for each key, so a node that is away for a day costs a fixed
 * amount of memory. What falls out ends with its TTL, as everything that a node keeps.
 */
import type { RedisScript } from '../../clients/redis.ts'

const OWED_MAX = 1000

export interface Owed {
  /** One request takes the place of an earlier one with the same key. */
  readonly key: string
  readonly script: RedisScript
  readonly keys: string[]
  readonly args: string[]
}

export class OwedRequests {
  readonly #requests = new Map<string, Owed>()

  get size(): number {
    return this.#requests.size
  }

  put(owed: Owed): void {
    this.#requests.delete(owed.key)
    if (this.#requests.size >= OWED_MAX) this.take()
    this.#requests.set(owed.key, owed)
  }

  /** The oldest, which is then no longer owed; null: nothing is. */
  take(): Owed | null {
    for (const [key, owed] of this.#requests) {
      this.#requests.delete(key)
      return owed
    }
    return null
  }

  clear(): void {
    this.#requests.clear()
  }
}
