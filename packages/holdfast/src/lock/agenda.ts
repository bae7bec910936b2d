/**
 * What has to happen when, for any number of leases or contenders, on one timer.
 *
 * Ten thousand leases with a timer each cost more memory in timers than in leases. A binary heap
 * ordered by due time keeps one timer armed for the earliest entry. Cancelling leaves the timer
 * alone: it may fire early, find nothing due and arm itself again, which is cheaper than a new
 * timer for each short request. With nothing left to do it only stops keeping the process alive:
 * a timer for each request and one for its waiting cost 8 % of an acquire and a release on Redis.
 */
import { assert } from '../core/assert.ts'
import type { CancelTimer } from '../core/clock.ts'
import type { Seams } from '../core/seams.ts'

export interface Entry {
  dueMs: number
  run: () => void
  /** Where it stands in the heap; -1 once it ran or was cancelled. */
  index: number
}

export class Agenda {
  readonly #seams: Seams
  readonly #keepsAlive: boolean
  readonly #heap: Entry[] = []
  #armedForMs = Number.POSITIVE_INFINITY
  #disarm: CancelTimer | null = null
  /** Nothing is due, so that the process may end although a timer may be armed. */
  #isDormant = false

  /** @param keepsAlive Whether an entry keeps the process running: contenders do, leases do not. */
  constructor(seams: Seams, keepsAlive: boolean) {
    this.#seams = seams
    this.#keepsAlive = keepsAlive
  }

  get size(): number {
    return this.#heap.length
  }

  /** Calls `run` once, at `dueMs` on the monotonic clock or as soon after as the loop allows. */
  add(dueMs: number, run: () => void): Entry {
    // One entry without a place in the order would break the order of all.
    assert(!Number.isNaN(dueMs), 'an agenda entry is due at some time')
    const entry: Entry = { dueMs, run, index: this.#heap.length }
    this.#heap.push(entry)
    this.#rise(entry)
    try {
      this.#arm()
    } catch (error) {
      // A caller's clock threw: whoever adds it is told, and then it must not run after all.
      this.cancel(entry)
      throw error
    }
    if (this.#isDormant) this.#keepAlive(true)
    return entry
  }

  /** Does nothing when the entry ran or was cancelled before. */
  cancel(entry: Entry): void {
    if (entry.index < 0) return
    assert(this.#heap[entry.index] === entry, 'an agenda entry stands where its index says')
    const last = this.#heap.pop() as Entry
    if (last !== entry) {
      this.#place(last, entry.index)
      this.#sink(last)
      this.#rise(last)
    }
    entry.index = -1
    // A kept-alive timer with nothing to do would hold the process for the rest of its delay.
    if (this.#heap.length === 0 && this.#keepsAlive) this.#keepAlive(false)
  }

  /** The timer stays armed and lets the process end; a clock that cannot do that loses the timer. */
  #keepAlive(keeps: boolean): void {
    this.#isDormant = !keeps
    if (this.#disarm?.keepAlive) return this.#disarm.keepAlive(keeps)
    if (keeps) return
    this.#disarm?.()
    this.#disarm = null
    this.#armedForMs = Number.POSITIVE_INFINITY
  }

  #arm(): void {
    const first = this.#heap[0]
    if (first === undefined || first.dueMs >= this.#armedForMs) return
    const delayMs = first.dueMs - this.#seams.nowMs()
    // The new one first: where the clock throws, the one for what was due before stays.
    const disarm = this.#seams.after(delayMs, () => this.#fire(), this.#keepsAlive)
    this.#disarm?.()
    this.#disarm = disarm
    this.#isDormant = false
    this.#armedForMs = first.dueMs
  }

  #fire(): void {
    this.#disarm = null
    this.#armedForMs = Number.POSITIVE_INFINITY
    const nowMs = this.#seams.nowMs()
    // An entry added by a running one, due at once, waits for the next turn of the loop.
    try {
      for (let left = this.#heap.length; left > 0; left -= 1) {
        const first = this.#heap[0]
        if (first === undefined || first.dueMs > nowMs) break
        this.cancel(first)
        first.run()
      }
    } finally {
      this.#arm()
    }
  }

  #place(entry: Entry, index: number): void {
    this.#heap[index] = entry
    entry.index = index
  }

  #rise(entry: Entry): void {
    let index = entry.index
    while (index > 0) {
      const parentIndex = (index - 1) >> 1
      const parent = this.#heap[parentIndex] as Entry
      if (parent.dueMs <= entry.dueMs) break
      this.#place(parent, index)
      index = parentIndex
    }
    this.#place(entry, index)
  }

  #sink(entry: Entry): void {
    let index = entry.index
    for (;;) {
      const left = this.#heap[2 * index + 1]
      const right = this.#heap[2 * index + 2]
      const child =
        right !== undefined && left !== undefined && right.dueMs < left.dueMs ? right : left
      if (child === undefined || child.dueMs >= entry.dueMs) break
      const childIndex = child.index
      this.#place(child, index)
      index = childIndex
    }
    this.#place(entry, index)
  }
}
