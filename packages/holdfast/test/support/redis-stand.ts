/** One private Redis for a file of tests, a proxy in front of it, and what each test opens there. */
import type { Redis } from 'ioredis'
import { afterAll, afterEach, beforeAll } from 'vitest'
import { type RedisServer, startRedis } from '../../../cli/src/lab/servers/index.ts'
import { type RedisLimits, redisBackendWith } from '../../src/backends/redis/redis-backend.ts'
import type { Backend } from '../../src/core/backend.ts'
import type { Locks, LocksOptions } from '../../src/core/lease.ts'
import { systemSeams } from '../../src/core/seams.ts'
import { createLocksWith } from '../../src/lock/lock.ts'
import type { RedisClient, RedisOptions } from '../../src/redis.ts'
import { type FaultProxy, startProxy } from '../../src/testkit/proxy.ts'
import {
  type ClientName,
  type ClientOptions,
  type OpenClient,
  openClient,
  openInspector,
} from './redis.ts'

export interface Opening {
  /** ioredis 6 by default. */
  readonly name?: ClientName
  /** The server's by default. */
  readonly port?: number
  readonly client?: ClientOptions
  /** Of `redisBackend`. */
  readonly options?: RedisOptions
  readonly limits?: RedisLimits
  readonly defaults?: LocksOptions
}

/** The parts are there once the hooks of the file have run. */
export interface RedisStand {
  readonly server: RedisServer
  /** For the test itself. */
  readonly redis: Redis
  readonly proxy: FaultProxy
  /** Run when the test is over, the last one first. */
  readonly ends: (() => unknown)[]
  open(opening?: Opening): Promise<OpenClient>
  /** Polls, unless its options say otherwise. */
  backend(opening?: Opening): Promise<Backend>
  /** With a connection of their own: a process, as the store sees it. */
  locks(opening?: Opening): Promise<Locks>
}

/** Registers the hooks of the file that calls it. */
export function standOnRedis(args: readonly string[] = []): RedisStand {
  const ends: (() => unknown)[] = []
  let parts: Pick<RedisStand, 'server' | 'redis' | 'proxy'>
  beforeAll(async () => {
    const server = await startRedis({ args })
    parts = {
      server,
      redis: await openInspector(server.port),
      proxy: await startProxy(server.port),
    }
  })
  afterEach(async () => {
    parts.proxy.heal()
    // A connection that lost something would keep the closing waiting.
    parts.proxy.reset()
    for (const end of ends.splice(0).reverse()) await end()
    parts.proxy.onBytes = () => undefined
    await parts.redis.flushall()
  })
  afterAll(async () => {
    parts?.redis.disconnect()
    await parts?.proxy.close()
    await parts?.server.stop()
  })
  const open = async ({ name = 'ioredis 6', port = parts.server.port, client }: Opening = {}) => {
    const opened = await openClient(name, port, client)
    ends.push(opened.end)
    return opened
  }
  const backend = async (opening: Opening = {}): Promise<Backend> => {
    const { options = { subscriber: false }, limits } = opening
    const { client } = await open(opening)
    const made = redisBackendWith(systemSeams, client, options, limits)
    ends.push(() => made.close())
    return made
  }
  return {
    get server() {
      return parts.server
    },
    get redis() {
      return parts.redis
    },
    get proxy() {
      return parts.proxy
    },
    ends,
    open,
    backend,
    async locks(opening = {}) {
      const made = createLocksWith(systemSeams, await backend(opening), opening.defaults)
      ends.push(() => made.close())
      return made
    },
  }
}

/** Without a subscription of its own. */
export function backendOf(client: RedisClient): Backend {
  return redisBackendWith(systemSeams, client, { subscriber: false })
}
