/**
 * Data in this process with transactions, one after the other: what a guard in memory protects.
 *
 * Guarantees: a transaction is applied as a whole or not at all, and none begins before the one before
 * it has ended. Values are copied on their way in and out, so that nobody changes committed data by an
 * object that he kept. Does not guarantee anything after the process ends.
 *
 * The fences lie beside the data and take part in the same transactions, under keys of their own.
 */
import { BackendUnavailableError, InvalidArgumentError } from '../../core/errors.ts'
import { type Seams, systemSeams } from '../../core/seams.ts'
import { Bound } from '../shared/bound.ts'
import type { FenceRow } from '../shared/record.ts'
import { Turns } from '../shared/turns.ts'

/** A fence that is forgotten protects nothing, so none is dropped: above it a new one is refused. */
const FENCES_MAX = 1_000_000
/** How long a transaction of the user's waits for its turn. Milliseconds. */
const TURN_MS = 10_000

/** What a function may do inside a transaction. Every call is synchronous. */
export interface MemoryTransaction {
  /** A copy of the value, as this transaction sees it; undefined: there is none. */
  get(key: string): unknown
  /**
   * @param value Kept as a copy, by `structuredClone`. `undefined` deletes.
   * @throws DataCloneError for a function or another value without a copy; the transaction goes on.
   */
  set(key: string, value: unknown): void
}

/** Keys with values in this process; made by `memoryStore()`. */
export interface MemoryStore {
  /** A copy of the value that was committed last; undefined: there is none. */
  get(key: string): unknown
  /**
   * A transaction of yours, without a claim; `guard.claim(lease, tx)` adds one. It waits until the one
   * before it has ended, at most 10 s, and commits when `fn` has settled without an error.
   *
   * @throws GuardBusyError; what `fn` throws, as it is: nothing was applied.
   */
  transaction<T>(fn: (tx: MemoryTransaction) => T | Promise<T>): Promise<T>
}

export class Records implements MemoryStore {
  readonly values: Map<string, unknown> = new Map()
  readonly fences: Map<string, FenceRow> = new Map()
  readonly fencesMax: number
  readonly #turns: Turns
  readonly #key: string
  readonly #seams: Seams

  constructor(seams: Seams, fencesMax: number) {
    this.#seams = seams
    this.fencesMax = fencesMax
    this.#turns = new Turns(seams, 'on the same store')
    // Its own for each store: a call on another one inside of it waits for nothing of its own.
    this.#key = `memory:${seams.nonce()}`
  }

  get(key: string): unknown {
    return structuredClone(this.values.get(key))
  }

  async transaction<T>(fn: (tx: MemoryTransaction) => T | Promise<T>): Promise<T> {
    if (typeof fn !== 'function') throw new InvalidArgumentError('fn', fn, 'a function')
    const bound = new Bound(null, TURN_MS, this.#seams)
    return this.inTurn('a transaction', bound, fn)
  }

  /** Runs `work` in a transaction when no other runs, and commits what it did. */
  inTurn<T>(resource: string, bound: Bound, work: (tx: Transaction) => T | Promise<T>): Promise<T> {
    return this.#turns.run(this.#key, resource, bound, async () => {
      const tx = new Transaction(this)
      try {
        const value = await work(tx)
        // No turn of the event loop lies between this look and the commit.
        bound.assertValid()
        tx.commit()
        return value
      } finally {
        tx.end()
      }
    })
  }
}

export class Transaction implements MemoryTransaction {
  readonly #records: Records
  readonly #values = new Map<string, unknown>()
  readonly #fences = new Map<string, FenceRow>()
  #over: unknown = null

  constructor(records: Records) {
    this.#records = records
  }

  get(key: string): unknown {
    this.#enter()
    const from = this.#values.has(key) ? this.#values : this.#records.values
    return structuredClone(from.get(key))
  }

  set(key: string, value: unknown): void {
    this.#enter()
    if (typeof key !== 'string') throw new InvalidArgumentError('key', key, 'a text')
    this.#values.set(key, structuredClone(value))
  }

  fence(resource: string): FenceRow | null {
    this.#enter()
    return this.#fences.get(resource) ?? this.#records.fences.get(resource) ?? null
  }

  setFence(resource: string, row: FenceRow): void {
    this.#enter()
    const { fences, fencesMax } = this.#records
    if (!fences.has(resource) && fences.size + this.#fences.size >= fencesMax) {
      throw new BackendUnavailableError('out-of-memory', `${fencesMax} resources have a fence`)
    }
    this.#fences.set(resource, row)
  }

  belongsTo(records: Records): boolean {
    return this.#records === records
  }

  commit(): void {
    this.#enter()
    for (const [resource, row] of this.#fences) this.#records.fences.set(resource, row)
    for (const [key, value] of this.#values) {
      if (value === undefined) this.#records.values.delete(key)
      else this.#records.values.set(key, value)
    }
  }

  /** Whatever comes later is refused, with `why` when the transaction was cut short. */
  end(why?: unknown): void {
    const allowed = 'the one that a function of transaction() was given, until it ends'
    this.#over ??= why ?? new InvalidArgumentError('tx', 'a transaction that is over', allowed)
  }

  #enter(): void {
    if (this.#over !== null) throw this.#over
  }
}

/**
 * Keys with values in this process, and transactions on them: for `memoryGuard`.
 *
 * Each call makes a store of its own. Fences of at most 1,000,000 resources; above that a claim of a new
 * one rejects with BackendUnavailableError (`out-of-memory`).
 */
export function memoryStore(): MemoryStore {
  return memoryStoreWith(systemSeams)
}

/** For tests and simulations, with clocks of their own and a lower limit. */
export function memoryStoreWith(seams: Seams, fencesMax: number = FENCES_MAX): MemoryStore {
  return new Records(seams, fencesMax)
}
