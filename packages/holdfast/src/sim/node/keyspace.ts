/** The keys of a node, each with the millisecond after which it is gone. */
import type { Bytes } from './bytes.ts'

/** `string` is what our scripts write; the others stand for keys of other programs. */
export type KeyType = 'string' | 'list' | 'set' | 'zset' | 'hash' | 'stream'

export interface Entry {
  readonly type: KeyType
  /** Of a string; of another type nothing that a script of ours could read. */
  readonly value: Bytes
  /** On the node's wall clock, milliseconds since 1970; null: it never ends. */
  readonly expiresAtMs: number | null
}

export class KeySpace {
  readonly #entries = new Map<Bytes, Entry>()
  #version = 0

  /** Another after each write; a key that ends by itself changes nothing. */
  get version(): number {
    return this.#version
  }

  /** A key still exists in the very millisecond in which it expires, as in Redis 7.0 (src/db.c). */
  find(key: Bytes, nowMs: number): Entry | null {
    const entry = this.#entries.get(key)
    if (entry === undefined) return null
    if (entry.expiresAtMs === null || nowMs <= entry.expiresAtMs) return entry
    this.#entries.delete(key)
    return null
  }

  put(key: Bytes, entry: Entry): void {
    this.#version += 1
    this.#entries.set(key, entry)
  }

  /** @returns Whether there was one. */
  remove(key: Bytes, nowMs: number): boolean {
    this.#version += 1
    const wasThere = this.find(key, nowMs) !== null
    this.#entries.delete(key)
    return wasThere
  }

  /** In the order of the keys, so that a run can be repeated. */
  all(nowMs: number): [Bytes, Entry][] {
    return this.some(nowMs, () => true)
  }

  /** As {@link all}, of those that are wanted: the few that are new to somebody. */
  some(nowMs: number, isWanted: (key: Bytes, entry: Entry) => boolean): [Bytes, Entry][] {
    const found: [Bytes, Entry][] = []
    for (const [key, entry] of this.#entries) {
      if (entry.expiresAtMs !== null && nowMs > entry.expiresAtMs) this.#entries.delete(key)
      else if (isWanted(key, entry)) found.push([key, entry])
    }
    return found.sort(([one], [other]) => (one < other ? -1 : 1))
  }

  clear(): void {
    this.#version += 1
    this.#entries.clear()
  }
}
