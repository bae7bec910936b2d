/** Where the locks of an arm of `ttl` are: on nodes of Redis, one or three, or in a file. */
import { createLocks, type Locks } from 'holdfast'
import { sqliteBackend } from 'holdfast/sqlite'
import type { Addresses } from '../../scenario.ts'
import type { Trial } from '../../trial.ts'
import { lockFileIn } from '../ground/lock-file.ts'
import { openFile } from '../ground/sqlite-database.ts'
import { openLocks } from '../quorum/locks.ts'

export type LockStore = 'redis' | 'redlock of 3' | 'sqlite'

/** As it can be handed to a process. */
export interface LockPlace {
  /** Of the nodes; none: they are in a file. */
  readonly ports: readonly number[]
}

const NODES: Readonly<Record<LockStore, number>> = { redis: 1, 'redlock of 3': 3, sqlite: 0 }

export async function startLockPlace(trial: Trial, store: LockStore): Promise<LockPlace> {
  const nodes = await Promise.all(Array.from({ length: NODES[store] }, () => trial.startRedis()))
  return { ports: nodes.map(({ port }) => port) }
}

export async function openLocksAt(
  { ports }: LockPlace,
  addresses: Addresses,
  role: string,
): Promise<{ locks: Locks; close(): void }> {
  if (ports.length > 0) return openLocks('ioredis', ports, { onEmpty: 'fresh' })
  const file = openFile(lockFileIn(addresses), role)
  return { locks: createLocks(sqliteBackend(file)), close: () => file.close() }
}
