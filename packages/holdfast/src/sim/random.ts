/** Every choice of a schedule, drawn from its seed. */
import { nonceFrom, randomWords } from '../testkit/virtual-clock.ts'

export class Random {
  readonly #words: () => number
  readonly #seed: number
  #nonceCount = 0

  constructor(seed: number) {
    this.#seed = seed
    this.#words = randomWords(seed)
  }

  /** Uniform in [0, 1). */
  next(): number {
    return this.#words() / 2 ** 32
  }

  between(min: number, max: number): number {
    return min + this.next() * (max - min)
  }

  chance(probability: number): boolean {
    return this.next() < probability
  }

  pick<T>(list: readonly T[]): T {
    return list[Math.floor(this.next() * list.length)] as T
  }

  /** In the shape of an owner; no two of a seed are equal. */
  nonce(): string {
    this.#nonceCount += 1
    return nonceFrom(this.#seed, this.#nonceCount)
  }
}
