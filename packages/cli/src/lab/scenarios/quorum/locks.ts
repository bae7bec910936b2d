/** Locks on one Redis, or on several by a majority of them, with the clients that a user has. */
import { createLocks, type Locks } from 'holdfast'
import { redisBackend } from 'holdfast/redis'
import { type RedlockOptions, redlockBackend } from 'holdfast/redlock'
import { type ClientName, type OpenClient, openClient } from '../watchdog/clients.ts'

export interface OpenLocks {
  readonly locks: Locks
  /** Ends the connections at once, without waiting for answers: a node may never answer. */
  close(): void
}

/** The nodes' names, by which they are members. */
export const NODES = ['a', 'b', 'c'] as const

/** @param ports One: a single Redis. Three: Redlock. */
export async function openLocks(
  name: ClientName,
  ports: readonly number[],
  options: RedlockOptions,
): Promise<OpenLocks> {
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
