/** The guard for data in this process, put together. */
import type { Fenced, Options } from '../../core/backend.ts'
import { GuardBusyError, InvalidArgumentError } from '../../core/errors.ts'
import type { TransactionalGuard } from '../../core/guard.ts'
import { checkNames, integer } from '../../core/options.ts'
import { type Seams, systemSeams } from '../../core/seams.ts'
import { type Bound, onLoss, timerMs } from '../shared/bound.ts'
import { type Call, callOf } from '../shared/call.ts'
import { repeated } from '../shared/record.ts'
import { storableText } from '../shared/text.ts'
import { adoptOn, claimOn } from './claiming.ts'
import { type MemoryStore, type MemoryTransaction, Records, Transaction } from './store.ts'

export type MemoryGuardOptions = Options<{
  /**
   * The bound of one guarded call for a plain `Fenced`, of whose validity nothing is known: 10,000, as
   * for the guards of databases. 100 to 600,000 milliseconds. A lease brings its own bound, its
   * validity.
   */
  timeoutMs: number
  /**
   * Which record of the fence a lock name stands for: the lock name itself. Two lock names with one
   * record exclude each other's late writes only if their tokens rise together.
   */
  resource: (lockName: string) => string
}>

const NAMES: readonly string[] = ['timeoutMs', 'resource']
const TIMEOUT_MS_DEFAULT = 10_000
const TIMEOUT_MS_MIN = 100
const TIMEOUT_MS_MAX = 600_000

type Settings = Readonly<{ timeoutMs: number; resource: (lockName: string) => string }>

/**
 * A guard for data that lies in this process, in a store of `memoryStore()`: for tests of an
 * application, and for tools that are one process.
 *
 * Guarantees, for what is written inside `transaction`, or after `claim(lease, tx)` in the same
 * transaction: nothing of a smaller token is committed after a larger one claimed; a lost lease is not
 * committed; a rejection other than OutcomeUnknownError means that nothing was applied. Does not
 * guarantee anything for writes that do not claim, nor after the process ends: fences are gone with it.
 *
 * One transaction of a store runs at a time. A function that goes on after its lease has ended keeps
 * nobody waiting: its transaction is rolled back then, the call rejects, and what the function still
 * asks of it is refused.
 *
 * @param store Several guards may share one; they then see each other's fences.
 * @throws InvalidArgumentError naming the option that is wrong.
 */
export function memoryGuard(
  store: MemoryStore,
  options?: MemoryGuardOptions,
): TransactionalGuard<MemoryTransaction> {
  return memoryGuardWith(store, options)
}

/** For tests and simulations, with clocks and random ids of their own. */
export function memoryGuardWith(
  store: MemoryStore,
  options: MemoryGuardOptions | undefined,
  seams: Seams = systemSeams,
): TransactionalGuard<MemoryTransaction> {
  if (!(store instanceof Records)) {
    throw new InvalidArgumentError('store', store, 'a store of memoryStore()')
  }
  return new StoreGuard(store, readMemoryGuardOptions(options), seams)
}

/** @throws InvalidArgumentError naming the first option that is wrong. */
export function readMemoryGuardOptions(options: unknown): Settings {
  const own = (options ?? {}) as Record<string, unknown>
  if (typeof own !== 'object' || Array.isArray(own)) {
    throw new InvalidArgumentError('options', options, 'an object with options')
  }
  checkNames(own, NAMES)
  const { timeoutMs = TIMEOUT_MS_DEFAULT, resource } = own
  if (resource !== undefined && typeof resource !== 'function') {
    throw new InvalidArgumentError('resource', resource, 'a function from lock name to text')
  }
  return {
    timeoutMs: integer('timeoutMs', timeoutMs, TIMEOUT_MS_MIN, TIMEOUT_MS_MAX, ' milliseconds'),
    resource: (resource as Settings['resource'] | undefined) ?? ((lockName) => lockName),
  }
}

class StoreGuard implements TransactionalGuard<MemoryTransaction> {
  readonly seams: Seams
  readonly settings: Settings
  readonly #records: Records

  constructor(records: Records, settings: Settings, seams: Seams) {
    this.#records = records
    this.settings = settings
    this.seams = seams
  }

  async claim(lease: Fenced, tx?: MemoryTransaction): Promise<{ readonly seq: bigint }> {
    const call = this.#call(lease)
    if (tx === undefined) return this.#briefly(call, (own) => ({ seq: claimOn(own, call).seq }))
    if (!(tx instanceof Transaction) || !tx.belongsTo(this.#records)) {
      throw new InvalidArgumentError('tx', tx, 'a transaction of the store of this guard')
    }
    return { seq: claimOn(tx, call).seq }
  }

  async adopt(lease: Fenced): Promise<void> {
    const call = this.#call(lease)
    return this.#briefly(call, (tx) => adoptOn(tx, call))
  }

  async highest(resource: string): Promise<Omit<Fenced, 'lockName'> | null> {
    const row = this.#records.fences.get(storableText('resource', resource))
    return row ? { fencingToken: row.token, owner: row.owner, source: row.source } : null
  }

  async transaction<T>(lease: Fenced, fn: (tx: MemoryTransaction) => T | Promise<T>): Promise<T> {
    if (typeof fn !== 'function') throw new InvalidArgumentError('fn', fn, 'a function')
    const call = this.#call(lease)
    return this.#briefly(call, (tx) => {
      if (claimOn(tx, call).repeat) throw repeated()
      return this.#untilLoss(call, tx, () => fn(tx))
    })
  }

  /** Checks what is presented, and that the lease is not over. */
  #call(lease: Fenced): Call {
    const call = callOf(this, lease)
    call.bound.assertValid()
    return call
  }

  #briefly<T>({ claim, bound }: Call, work: (tx: Transaction) => T | Promise<T>): Promise<T> {
    return this.#records.inTurn(claim.resource, bound, (tx) => {
      bound.assertValid()
      return work(tx)
    })
  }

  /** Gives the result of `work`, or ends `tx` when the lease, or the guard's time-out, is over. */
  #untilLoss<T>({ claim, bound }: Call, tx: Transaction, work: () => T | Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      const cut = (): void => {
        stop()
        const late = `the function had not ended after ${this.settings.timeoutMs} ms`
        const { error = new GuardBusyError(claim.resource, late) } = bound.loss() ?? {}
        tx.end(error)
        reject(error)
      }
      const stop = watch(bound, this.seams, cut)
      const settled = (settle: () => void): void => {
        stop()
        settle()
      }
      new Promise<T>((start) => start(work())).then(
        (value) => settled(() => resolve(value)),
        (error) => settled(() => reject(error)),
      )
    })
  }
}

/** Calls `cut` when the bound is over; a lease that was renewed meanwhile goes on. */
function watch(bound: Bound, seams: Seams, cut: () => void): () => void {
  const look = (): void => {
    if (bound.remainingMs() === 0) cut()
    else cancelTimer = seams.after(timerMs(bound), look, true)
  }
  let cancelTimer = seams.after(timerMs(bound), look, true)
  const unlisten = onLoss(bound, cut)
  return () => {
    cancelTimer()
    unlisten()
  }
}
