/** Private servers for a file of tests, and pairs of backends on all of them: two processes, as they see. */
import { Redis } from 'ioredis'
import { type RedisServer, startRedis } from '../../../cli/src/lab/servers/index.ts'
import { redlockBackendWith } from '../../src/backends/redlock/redlock-backend.ts'
import { type RedlockOptions, redlockBackend } from '../../src/redlock.ts'
import { NodeClient } from '../../src/sim/node/client.ts'
import { RedisNode } from '../../src/sim/node/node.ts'
import type { OpenBackends } from '../../src/testkit/backend-harness.ts'
import { createVirtualClock, seamsOf } from '../../src/testkit/virtual-clock.ts'
import { CLIENTS, keysWithoutTtl } from './redis-clients.ts'

type Client = Parameters<typeof redlockBackend>[0][string]

export interface RedlockPairs {
  open(clientName: string, options?: RedlockOptions): Promise<OpenBackends>
  stop(): Promise<void>
}

/** `{ a, b, c, … }`: as many as there are of `values`. */
export function byName<T>(values: readonly T[]): Record<string, T> {
  return Object.fromEntries(
    values.map((value, index) => [String.fromCharCode(97 + index), value] as const),
  )
}

export async function startRedlockPairs(nodeCount: number): Promise<RedlockPairs> {
  const servers: RedisServer[] = []
  for (let node = 0; node < nodeCount; node++) servers.push(await startRedis())
  const inspectors = servers.map(({ port }) => new Redis(port, '127.0.0.1'))
  return {
    async open(clientName, options) {
      const connect = CLIENTS[clientName]
      if (!connect) throw new Error(`no client is called ${clientName}`)
      const openAll = () => Promise.all(servers.map(({ port }) => connect(port)))
      const [one, other] = await Promise.all([openAll(), openAll()])
      // New servers: nothing can have been forgotten.
      const given = { onEmpty: 'fresh', nodeTimeoutMs: 10_000, ...options } as const
      const ours = redlockBackend(byName(one.map(({ client }): Client => client)), given)
      const theirs = redlockBackend(byName(other.map(({ client }): Client => client)), given)
      const close = async (): Promise<void> => {
        await Promise.all([ours.close(), theirs.close()])
        await Promise.all([...one, ...other].map(({ end }) => end()))
      }
      const withoutEnd = async (): Promise<string[]> => {
        const found = await Promise.all(inspectors.map(keysWithoutTtl))
        return found.flat()
      }
      return { ours, theirs, withoutEnd, close }
    },
    async stop() {
      for (const inspector of inspectors) inspector.disconnect()
      for (const server of servers) await server.stop()
    },
  }
}

/** On models of nodes and virtual time, new ones for each check. */
export async function openModelPair(nodeCount: number): Promise<OpenBackends> {
  const clock = createVirtualClock()
  const seams = seamsOf(clock)
  const nodes = Array.from({ length: nodeCount }, () => new RedisNode(seams))
  const reach = () => {
    const clients = nodes.map((node): Client => new NodeClient(node))
    return redlockBackendWith(seams, byName(clients), { onEmpty: 'fresh' })
  }
  const [ours, theirs] = [reach(), reach()]
  // What a node keeps for ever are its counters and its marker.
  const withoutEnd = async () => {
    const keys = nodes.flatMap((node) => node.keysWithoutEnd())
    return keys.filter((key) => !/#hf:(token:|marker$)/.test(key))
  }
  const close = async () => {
    await Promise.all([ours.close(), theirs.close()])
    for (const node of nodes) node.stop()
  }
  return { ours, theirs, clock, withoutEnd, close }
}
