/** Locks on one Redis, on several by a majority of them, or in etcd, with the clients that a user has. */
import { createLocks, type Locks } from 'holdfast'
import { redisBackend } from 'holdfast/redis'
import { type RedlockOptions, redlockBackend } from 'holdfast/redlock'
import { openEtcdLocks } from '../ground/etcd-locks.ts'
import { type ClientName, type OpenClient, openClient } from '../watchdog/clients.ts'

export interface OpenLocks {
  readonly locks: Locks
  /** Ends the connections at once, without waiting for answers: a node may never answer. */
  close(): void
}

/** The nodes' names, by which they are members. */
export const NODES = ['a', 'b', 'c'] as const

/** What locks are reached with: one of the clients of Redis, or that of etcd. */
export type Driver = ClientName | 'etcd'

/** @param ports Of Redis: one is a single Redis, three a Redlock. Of etcd: its members. */
export async function openLocks(
  name: Driver,
  ports: readonly number[],
  options: RedlockOptions,
): Promise<OpenLocks> {
  if (name === 'etcd') {
    const locks = openEtcdLocks(ports.map((port) => `127.0.0.1:${port}`))
    // It ends its connections when the requests under way are over; nobody waits for that.
    return { locks, close: () => void locks.close().catch(() => {}) }
  }
  const opened = await Promise.all(ports.map((port) => openClient(name, port)))
  const close = (): void => {
    for (const one of opened) one.close()
  }
  const [first, ...others] = opened
  if (first === undefined) throw new Error('locks need a node')
  if (others.length === 0) return { locks: createLocks(redisBackend(first.client)), close }
  const clients = opened.map(({ client }: OpenClient, index) => [NODES[index] ?? index, client])
  const backend = redlockBackend(Object.fromEntries(clients), options)
  // The default TTL must be one that the nodes accept.
  const { maxTtlMs } = options
  return { locks: createLocks(backend, maxTtlMs === undefined ? {} : { ttlMs: maxTtlMs }), close }
}
