/**
 * The names that are taken, with an end for each.
 *
 * No timer ends an entry: one that is past its end counts as absent wherever it is looked at, and
 * every request sweeps away a few of them, so that memory holds what lives and not what has been. A
 * binary heap by end keeps that exact: the first to end is always known, and an entry that is
 * released or renewed is found in the heap by the place it keeps, so none is left behind there.
 */
import { assert } from '../../core/assert.ts'
import type { HolderInfo } from '../../core/backend.ts'
import type { LossReason } from '../../core/errors.ts'

export interface Entry {
  readonly lockName: string
  /** Null: nobody holds it, the name rests after an early release. */
  readonly owner: string | null
  readonly fencingToken: bigint
  /** Monotonic. Changed through `renew` alone, or the heap loses its order. */
  endsAtMs: number
  readonly sinceAtMs: number
  readonly lockDelayMs: number
  /** Who held it before an operator took it over: the next renewal of that owner is told so. */
  readonly revokedOwner: string | null
  holder: HolderInfo | null
  /** Until then, at least, a contender of other locks on this backend waits for the name. */
  wantedUntilMs: number
  /** Whose contender left the mark. */
  wantedBy: string
  readonly onLost: (reason: LossReason) => void
}

type Placed = Entry & { place: number }

/** One request adds at most one entry, so sweeping more than one makes the dead ones fewer. */
const SWEPT_PER_REQUEST = 8

export class Entries {
  readonly #byName = new Map<string, Placed>()
  /** Each entry ends no later than the two at `2 * place + 1` and `2 * place + 2`. */
  readonly #heap: Placed[] = []

  get size(): number {
    return this.#heap.length
  }

  /** The entry of a name, if it has not ended. */
  at(lockName: string, nowMs: number): Entry | undefined {
    const entry = this.#byName.get(lockName)
    return entry && entry.endsAtMs > nowMs ? entry : undefined
  }

  /** Replaces what the name had. */
  set(entry: Entry): void {
    this.delete(entry.lockName)
    const placed = { ...entry, place: this.#heap.length }
    this.#byName.set(entry.lockName, placed)
    this.#heap.push(placed)
    this.#rise(placed)
  }

  delete(lockName: string): void {
    const entry = this.#byName.get(lockName)
    if (!entry) return
    this.#byName.delete(lockName)
    const last = this.#heap.pop() as Placed
    if (last === entry) return
    this.#put(last, entry.place)
    this.#rise(last)
    this.#sink(last)
  }

  /** Never shortens. */
  renew(entry: Entry, endsAtMs: number): void {
    const placed = this.#byName.get(entry.lockName)
    assert(placed === entry, 'only an entry that stands is renewed')
    if (endsAtMs <= placed.endsAtMs) return
    placed.endsAtMs = endsAtMs
    this.#sink(placed)
  }

  /** Removes a few of those that have ended, those that ended first. */
  sweep(nowMs: number): void {
    for (let count = 0; count < SWEPT_PER_REQUEST; count++) {
      const first = this.#heap[0]
      if (!first || first.endsAtMs > nowMs) return
      this.delete(first.lockName)
    }
  }

  /** In the order in which they came. Entries may come and go while it runs. */
  values(): IterableIterator<Entry> {
    return this.#byName.values()
  }

  #put(entry: Placed, place: number): void {
    this.#heap[place] = entry
    entry.place = place
  }

  #swap(one: Placed, other: Placed): void {
    const place = one.place
    this.#put(one, other.place)
    this.#put(other, place)
  }

  #rise(entry: Placed): void {
    while (entry.place > 0) {
      const parent = this.#heap[(entry.place - 1) >>> 1] as Placed
      if (parent.endsAtMs <= entry.endsAtMs) return
      this.#swap(parent, entry)
    }
  }

  #sink(entry: Placed): void {
    for (;;) {
      const left = this.#heap[2 * entry.place + 1]
      const right = this.#heap[2 * entry.place + 2]
      const sooner = right && left && right.endsAtMs < left.endsAtMs ? right : left
      if (!sooner || sooner.endsAtMs >= entry.endsAtMs) return
      this.#swap(entry, sooner)
    }
  }
}
