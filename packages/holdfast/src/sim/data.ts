/** The guarded data: registers with ids of writes, in a process of their own. */
import type { Fenced } from '../core/backend.ts'
import { memoryGuardWith } from '../guards/memory/guard.ts'
import {
  type MemoryStore,
  type MemoryTransaction,
  memoryStoreWith,
} from '../guards/memory/store.ts'
import type { Link } from './link.ts'
import type { Process } from './process.ts'

export class Data {
  readonly #process: Process
  readonly #store: MemoryStore

  constructor(process: Process) {
    this.#process = process
    this.#store = memoryStoreWith(process.seams)
  }

  /** What is committed. */
  register(lockName: string): readonly number[] {
    return listOf(this.#store.get(lockName))
  }

  /** The holder's first step: raises the fence, and reads what it then protects. */
  claim(link: Link, lease: Fenced): Promise<readonly number[]> {
    const what = `claims ${lease.lockName}`
    return this.#transact(link, lease, what, (tx) => listOf(tx.get(lease.lockName)))
  }

  /** Writes the whole register, as it was read and with what is new. */
  write(link: Link, lease: Fenced, list: readonly number[]): Promise<void> {
    return this.#transact(link, lease, `writes ${lease.lockName}: ${list.at(-1)}`, (tx) =>
      tx.set(lease.lockName, list),
    )
  }

  /** Adds to whatever the register holds by then. */
  append(link: Link, lease: Fenced, id: number): Promise<void> {
    return this.#transact(link, lease, `appends ${lease.lockName}: ${id}`, (tx) =>
      tx.set(lease.lockName, [...listOf(tx.get(lease.lockName)), id]),
    )
  }

  #transact<T>(
    link: Link,
    { lockName, fencingToken, owner, source }: Fenced,
    what: string,
    work: (tx: MemoryTransaction) => T,
  ): Promise<T> {
    const presented = { lockName, fencingToken, owner, source }
    const op = this.#process.seams.nonce()
    const seams = { ...this.#process.seams, nonce: () => op }
    return link.call(`${what}, token ${fencingToken}`, false, () =>
      memoryGuardWith(this.#store, {}, seams).transaction(presented, async (tx) => work(tx)),
    )
  }
}

function listOf(value: unknown): readonly number[] {
  return (value as readonly number[] | undefined) ?? []
}
