/** Private servers for a file of tests, a proxy in front of each, and backends on all of them. */
import type { Redis } from 'ioredis'
import { afterAll, afterEach, beforeAll } from 'vitest'
import { type RedisServer, startRedis } from '../../../cli/src/lab/servers/index.ts'
import {
  type RedlockLimits,
  redlockBackendWith,
} from '../../src/backends/redlock/redlock-backend.ts'
import type { Backend } from '../../src/core/backend.ts'
import type { Locks, LocksOptions } from '../../src/core/lease.ts'
import { type Seams, systemSeams } from '../../src/core/seams.ts'
import { createLocksWith } from '../../src/lock/lock.ts'
import type { RedlockNode, RedlockOptions } from '../../src/redlock.ts'
import { type FaultProxy, startProxy } from '../../src/testkit/proxy.ts'
import { type ClientName, type OpenClient, openClient, openInspector } from './redis.ts'

export interface RedlockOpening {
  /** ioredis 6 by default. */
  readonly name?: ClientName
  /** True: what a client does by itself, offline queue and resending. */
  readonly queues?: boolean
  /** Whether through the proxies. */
  readonly proxied?: boolean
  /** Whether contenders are woken; otherwise they poll. */
  readonly listens?: boolean
  /** Of `redlockBackend`; new servers need not wait. */
  readonly options?: RedlockOptions
  readonly limits?: RedlockLimits
  readonly seams?: Seams
}

export interface OpenRedlock {
  readonly backend: Backend
  readonly clients: readonly OpenClient['client'][]
}

/** The parts are there once the hooks of the file have run. */
export interface RedlockStand {
  readonly servers: RedisServer[]
  readonly proxies: FaultProxy[]
  /** For the test itself, one to each server. */
  readonly inspectors: Redis[]
  /** Run when the test is over, the last one first. */
  readonly ends: (() => unknown)[]
  open(opening?: RedlockOpening): Promise<OpenRedlock>
  locks(opening?: RedlockOpening, defaults?: LocksOptions): Promise<Locks>
}

export const NODE_NAMES = ['a', 'b', 'c', 'd', 'e'] as const

/** Registers the hooks of the file that calls it. Every test begins with nodes that never had data. */
export function standOnRedlock(nodeCount = 3): RedlockStand {
  const stand: Pick<RedlockStand, 'servers' | 'proxies' | 'inspectors' | 'ends'> = {
    servers: [],
    proxies: [],
    inspectors: [],
    ends: [],
  }
  const { servers, proxies, inspectors, ends } = stand
  beforeAll(async () => {
    for (let node = 0; node < nodeCount; node++) {
      const server = await startRedis()
      servers.push(server)
      proxies.push(await startProxy(server.port))
      inspectors.push(await openInspector(server.port))
    }
  })
  afterEach(async () => {
    for (const server of servers) server.thaw()
    for (const proxy of proxies) {
      proxy.heal()
      // A connection that lost something would keep the closing waiting.
      proxy.reset()
    }
    for (const end of ends.splice(0).reverse()) await end()
    for (const inspector of inspectors) await inspector.flushall()
  })
  afterAll(async () => {
    for (const inspector of inspectors) inspector.disconnect()
    for (const proxy of proxies) await proxy.close()
    for (const server of servers) await server.stop()
  })
  const open = async (opening: RedlockOpening = {}): Promise<OpenRedlock> => {
    const { name = 'ioredis 6', queues = false, proxied = false, listens = false } = opening
    const nodes: Record<string, RedlockNode> = {}
    const clients: OpenClient['client'][] = []
    for (const [node, { port }] of (proxied ? proxies : servers).entries()) {
      const { client, end } = await openClient(name, port, { queues })
      ends.push(end)
      clients.push(client)
      nodes[NODE_NAMES[node] ?? ''] = listens ? { client } : { client, subscriber: false }
    }
    const options = { onEmpty: 'fresh', maxTtlMs: 30_000, ...opening.options } as const
    const { seams = systemSeams, limits } = opening
    const backend = redlockBackendWith(seams, nodes, options, limits)
    ends.push(() => backend.close())
    return { backend, clients }
  }
  return {
    ...stand,
    open,
    async locks(opening, defaults) {
      const { backend } = await open(opening)
      const made = createLocksWith(systemSeams, backend, defaults)
      ends.push(() => made.close())
      return made
    },
  }
}
