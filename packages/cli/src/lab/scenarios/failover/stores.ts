/** Who keeps the locks of an election, or of `ttl`: started by the lab, and reached by those who contend. */
import { createLocks, type Locks } from 'holdfast'
import { sqliteBackend } from 'holdfast/sqlite'
import type { Addresses } from '../../scenario.ts'
import type { Trial } from '../../trial.ts'
import { etcdEntry, grantedTtlMs } from '../ground/etcd-entry.ts'
import { openEtcdLocks } from '../ground/etcd-locks.ts'
import { lockFileIn } from '../ground/lock-file.ts'
import { openFile } from '../ground/sqlite-database.ts'
import { openLocks } from '../quorum/locks.ts'

/** A file, one Redis or three, one member of etcd or three. */
export type KeeperName =
  | 'sqlite'
  | 'redis'
  | 'redlock of 3'
  | 'etcd, one member'
  | 'etcd, three members'

/** How it is reached. */
export type Reach =
  | { readonly kind: 'file' }
  | { readonly kind: 'redis'; readonly ports: readonly number[] }
  | { readonly kind: 'etcd'; readonly endpoints: readonly string[] }

export interface Keeper {
  readonly reach: Reach
  /** The TTL that whoever leads was granted, by the store's own word; null: it grants what is asked. */
  grantedTtlMs(electionName: string): Promise<number | null>
}

const NODES: Readonly<Partial<Record<KeeperName, number>>> = { redis: 1, 'redlock of 3': 3 }

export async function startKeeper(trial: Trial, name: KeeperName): Promise<Keeper> {
  if (name === 'sqlite') return { reach: { kind: 'file' }, grantedTtlMs: async () => null }
  const count = NODES[name]
  if (count !== undefined) {
    const nodes = await Promise.all(Array.from({ length: count }, () => trial.startRedis()))
    const ports = nodes.map(({ port }) => port)
    return { reach: { kind: 'redis', ports }, grantedTtlMs: async () => null }
  }
  const members =
    name === 'etcd, one member'
      ? [await trial.startEtcd()]
      : (await trial.startEtcdCluster()).members
  const endpoints = members.map(({ endpoint }) => endpoint)
  return {
    reach: { kind: 'etcd', endpoints },
    grantedTtlMs: async (electionName) => {
      const port = members[0]?.port ?? 0
      const entry = await etcdEntry(port, electionName)
      if (entry === null) throw new Error(`nobody leads ${electionName}, by the word of etcd`)
      return grantedTtlMs(port, entry.session)
    },
  }
}

/** In a process; `close` ends what `locks.close()` does not. */
export async function openKeeper(
  reach: Reach,
  addresses: Addresses,
  role: string,
): Promise<{ locks: Locks; close(): void }> {
  if (reach.kind === 'redis') return openLocks('ioredis', reach.ports, { onEmpty: 'fresh' })
  if (reach.kind === 'etcd') return { locks: openEtcdLocks(reach.endpoints), close: () => {} }
  const file = openFile(lockFileIn(addresses), role)
  return { locks: createLocks(sqliteBackend(file)), close: () => file.close() }
}
