import { Redis as Io } from 'ioredis'
import { Redis as Io5 } from 'ioredis5'
import { createClient, createSentinel } from 'redis'
import { createSentinel as createSentinel5 } from 'redis5'
import { afterEach, describe, expect, it } from 'vitest'
import { startRedis, startRedisSentinels } from '../../../cli/src/lab/servers/index.ts'
import { redisBackendWith } from '../../src/backends/redis/redis-backend.ts'
import type { Backend } from '../../src/core/backend.ts'
import { systemSeams } from '../../src/core/seams.ts'
import type { RedisClient } from '../../src/redis.ts'
import { acquired, request } from '../../src/testkit/backend-harness.ts'
import { type FaultProxy, startProxy } from '../../src/testkit/proxy.ts'
import { CAREFUL, openInspector, until } from '../support/redis.ts'

const ends: (() => unknown)[] = []

afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end()
})

function backendOf(client: RedisClient): Backend {
  return redisBackendWith(systemSeams, client, { subscriber: false })
}

interface Pair {
  /** Of both, one after the other. */
  readonly address: FaultProxy
  /** The server behind the address becomes a replica, and the other one takes its place. */
  failOver(): Promise<void>
  /** The server behind the address becomes a replica, and stays behind it. */
  demote(): Promise<void>
}

async function openPair(): Promise<Pair> {
  // An end waits for no replica.
  const args = ['--repl-diskless-sync-delay', '0', '--shutdown-timeout', '0']
  const old = await startRedis({ args })
  ends.push(() => old.stop())
  const next = await startRedis({ args })
  ends.push(() => next.stop())
  const inspector = await openInspector(old.port)
  ends.push(() => inspector.disconnect())
  const address = await startProxy(old.port)
  ends.push(() => address.close())
  const demote = async (): Promise<void> => {
    await inspector.call('REPLICAOF', '127.0.0.1', String(next.port))
  }
  return {
    address,
    demote,
    async failOver() {
      await demote()
      address.serverPort = next.port
    },
  }
}

const refused = {
  code: 'BACKEND_UNAVAILABLE',
  why: 'read-only',
  message: expect.stringContaining('no writable node'),
}

const isGranted = (backend: Backend): Promise<boolean> =>
  backend.tryAcquire(request('k')).then(
    ({ kind }) => kind === 'granted',
    () => false,
  )

// B057: after a failover the client kept talking to the old primary, now a replica, over a sound
// connection, and every acquire failed until the program was started again.
describe.each([
  ['ioredis 5', (options: object) => new Io5(options)],
  ['ioredis 6', (options: object) => new Io(options)],
] as const)('%s, connected to what was the primary', (_, connect) => {
  const open = (port: number, options: object = {}): Io | Io5 => {
    const client = connect({ ...CAREFUL, ...options, host: '127.0.0.1', port })
    client.on('error', () => undefined)
    ends.push(() => client.disconnect())
    return client
  }

  it('says that no writable node was reached, and finds the new one by itself', async () => {
    const { address, failOver } = await openPair()
    const client = open(address.port)
    await until(() => client.status === 'ready', 'the client is connected')
    const backend = backendOf(client)
    await acquired(backend, 'warm')
    await failOver()
    await expect(backend.tryAcquire(request('k'))).rejects.toMatchObject(refused)
    await until(() => isGranted(backend), 'the new primary is found')
    expect(address.acceptedCount).toBe(2)
  })

  // Where every connection leads to a replica, looking for each request would be a storm.
  it('looks once, not for each request, and goes on saying what is wrong', async () => {
    const { address, demote } = await openPair()
    const client = open(address.port)
    await until(() => client.status === 'ready', 'the client is connected')
    const backend = backendOf(client)
    await acquired(backend, 'warm')
    await demote()
    const startedAtMs = performance.now()
    await expect(backend.tryAcquire(request('k'))).rejects.toMatchObject(refused)
    await until(() => address.acceptedCount === 2, 'the client has connected anew')
    await until(() => client.status === 'ready', 'the client is connected')
    for (let count = 0; count < 50; count++) {
      await expect(backend.tryAcquire(request('k'))).rejects.toMatchObject(refused)
    }
    // A machine that takes longer than the pause of 5 s for all of it may look once more for each.
    const pauses = Math.floor((performance.now() - startedAtMs) / 5000)
    expect(address.acceptedCount).toBeLessThanOrEqual(2 + pauses)
  })

  it('is left to the user’s own reconnectOnError', async () => {
    const { address, demote } = await openPair()
    const client = open(address.port, { reconnectOnError: () => false })
    await until(() => client.status === 'ready', 'the client is connected')
    const backend = backendOf(client)
    await demote()
    for (let count = 0; count < 5; count++) {
      await expect(backend.tryAcquire(request('k'))).rejects.toMatchObject(refused)
    }
    expect(client.status).toBe('ready')
    expect(address.acceptedCount).toBe(1)
  })
})

// What a plain client of node-redis cannot be told: the page sends those who fail over to Sentinels.
it('node-redis: the refusal says that no writable node was reached', async () => {
  const { address, demote } = await openPair()
  const client = createClient({
    disableOfflineQueue: true,
    socket: { host: '127.0.0.1', port: address.port },
  })
  client.on('error', () => undefined)
  await client.connect()
  ends.push(() => client.destroy())
  const backend = backendOf(client)
  await acquired(backend, 'warm')
  await demote()
  await expect(backend.tryAcquire(request('k'))).rejects.toMatchObject(refused)
})

// B057: EVAL was taken for a read, and a setting "prefer replicas" sent locks to replicas.
describe('a Sentinel client of node-redis that reads from replicas', () => {
  it.each(['node-redis 5', 'node-redis 6'])(
    '%s: sends every request for a lock to the primary',
    async (name) => {
      const group = await startRedisSentinels()
      ends.push(() => group.stop())
      const options = {
        name: group.groupName,
        sentinelRootNodes: group.sentinels.map(({ port }) => ({ host: '127.0.0.1', port })),
        replicaPoolSize: 2,
        nodeClientOptions: { disableOfflineQueue: true },
      }
      const client = name === 'node-redis 5' ? createSentinel5(options) : createSentinel(options)
      client.on('error', () => undefined)
      await client.connect()
      ends.push(() => client.destroy())
      const backend = backendOf(client)
      for (let count = 0; count < 20; count++) {
        const grant = await acquired(backend, `k${count}`)
        expect((await backend.inspect(`k${count}`))?.fencingToken).toBe(grant.fencingToken)
        expect((await backend.renew(grant, 2 * grant.ttlMs)).kind).toBe('renewed')
        expect(await backend.release(grant, 0)).toBe('released')
        await client.get('read')
      }
      const counts: number[][] = []
      for (const { port } of group.nodes) {
        const inspector = await openInspector(port)
        const stats = await inspector.info('commandstats')
        const callsOf = (command: string): number =>
          Number(new RegExp(`cmdstat_${command}:calls=(\\d+)`).exec(stats)?.[1] ?? 0)
        counts.push([callsOf('evalsha') + callsOf('eval'), callsOf('get')])
        inspector.disconnect()
      }
      const [primary = [], ...replicas] = counts
      expect(primary[0]).toBeGreaterThanOrEqual(80)
      expect(replicas.map(([scripts]) => scripts)).toEqual([0, 0])
      // That the setting is in force: the reads beside the locks went to the replicas.
      expect(replicas.every(([, reads = 0]) => reads > 0)).toBe(true)
    },
  )
})
