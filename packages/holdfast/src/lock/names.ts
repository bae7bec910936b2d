/**
 * What stands at each lock name, for names that come and go all the time.
 *
 * A Map that is nearly empty is made anew by `delete`, each time; so a name that left stays as an
 * empty place, and is found there when it comes again. Empty places are swept out when there are more
 * of them than a bound, and than names.
 */
const EMPTY_MAX = 1000

export class Names<V extends object> {
  readonly #places = new Map<string, V | null>()
  #count = 0

  /** How many it keeps a place for, empty ones included. */
  get placeCount(): number {
    return this.#places.size
  }

  get(lockName: string): V | null {
    return this.#places.get(lockName) ?? null
  }

  set(lockName: string, value: V): void {
    if (this.get(lockName) === null) this.#count += 1
    this.#places.set(lockName, value)
  }

  /** Does nothing when another one than `value` stands there. */
  remove(lockName: string, value: V): void {
    if (this.#places.get(lockName) !== value) return
    this.#places.set(lockName, null)
    this.#count -= 1
    if (this.#places.size - this.#count > Math.max(EMPTY_MAX, this.#count)) this.#sweep()
  }

  /** As it stands: what is set or removed meanwhile changes nothing. */
  values(): V[] {
    return [...this.#places.values()].filter((value) => value !== null)
  }

  #sweep(): void {
    for (const [lockName, value] of this.#places) if (value === null) this.#places.delete(lockName)
  }
}
