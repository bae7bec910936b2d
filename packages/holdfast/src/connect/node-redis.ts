/** Clients of node-redis 5 and 6 for locks, with the settings that docs/backends/redis.md advises. */
import type { RedisClient } from '../clients/redis.ts'
import type { Connection } from './redis.ts'
import { CONNECT_ATTEMPT_MS, KEEP_ALIVE_MS, PING_MS, SILENCE_MS } from './redis-settings.ts'
import type { RedisTarget } from './redis-target.ts'

type Client = RedisClient & {
  on(event: string, listener: (...args: unknown[]) => void): unknown
  connect(): Promise<unknown>
  destroy(): unknown
}

type Make = (options: object) => Client

interface NodeRedis {
  readonly createClient: Make
  readonly createSentinel: Make
  readonly createCluster: Make
}

/**
 * RESP 2 needs no HELLO, which some providers have switched off. A time-out for each command would
 * double the cost of a lock; locks have their own.
 */
const TOP = { RESP: 2, commandOptions: { timeout: 0 } }

export function connectionOfNodeRedis(module: unknown, target: RedisTarget): Connection {
  const client = clientOf(module as NodeRedis, target)
  return {
    client,
    listen(onError, onReady) {
      for (const event of ['error', 'node-error', 'client-error']) client.on(event, onError)
      for (const event of ['ready', 'node-ready']) client.on(event, onReady)
    },
    connect: () => client.connect(),
    end() {
      try {
        // Of a Sentinel client it is a promise.
        Promise.resolve(client.destroy()).catch(() => undefined)
      } catch {
        // One that never connected says that it is closed.
      }
    },
  }
}

function clientOf(module: NodeRedis, target: RedisTarget): Client {
  const { kind, addresses, path, db, groupName, credentials, sentinelCredentials } = target
  const own = { ...credentials, disableOfflineQueue: true, pingInterval: PING_MS }
  if (kind === 'sentinel') {
    return module.createSentinel({
      ...TOP,
      name: groupName,
      sentinelRootNodes: addresses,
      nodeClientOptions: { ...own, database: db, socket: socketOf(target) },
      sentinelClientOptions: { ...sentinelCredentials, socket: socketOf(target) },
    })
  }
  if (kind === 'cluster') {
    return module.createCluster({
      ...TOP,
      rootNodes: addresses.map((address) => ({ socket: { ...socketOf(target), ...address } })),
      defaults: { ...own, socket: socketOf(target) },
    })
  }
  const address = kind === 'socket' ? { path } : addresses[0]
  const socket = { ...socketOf(target), ...address }
  return module.createClient({ ...TOP, ...own, database: db, socket })
}

function socketOf({ tls }: RedisTarget): Record<string, unknown> {
  return {
    connectTimeout: CONNECT_ATTEMPT_MS,
    keepAlive: true,
    keepAliveInitialDelay: KEEP_ALIVE_MS,
    socketTimeout: SILENCE_MS,
    ...(tls === null ? {} : { ...tls, tls: true }),
  }
}
