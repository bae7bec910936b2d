import { assert, asyncProperty, constantFrom, string } from 'fast-check'
import { Cluster } from 'ioredis'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { type RedisCluster, startRedisCluster } from '../../../cli/src/lab/servers/index.ts'
import type { Backend, LockInfo } from '../../src/core/backend.ts'
import { createLocks } from '../../src/lock/lock.ts'
import { redisBackend } from '../../src/redis.ts'
import { acquired, LONG_MS, request } from '../../src/testkit/backend-harness.ts'
import { slotOf } from '../../src/wire/slots.ts'
import {
  allKeys,
  CLIENT_NAMES,
  type ClientName,
  keysWithoutTtl,
  openInspector,
  until,
} from '../support/redis.ts'
import {
  type ClusterClientOptions,
  onEachPrimary,
  openClusterClient,
} from '../support/redis-cluster.ts'

/** One in each third of the slots, each with another primary. */
const THIRDS = ['d', 'a', 'c']
/** Behind `{}` a later tag counts for nothing; node-redis 5 believes that it does. */
const LATE_TAG = 'a{}b{c}'
const BRACED = ['{tag}', 'x{tag}y', '{', '}', '{}', 'a{b', 'a}b{c}', '{{锁}}']

function namesFor(client: ClientName): string[] {
  return [...THIRDS, ...BRACED, ...(client === 'node-redis 5' ? [] : [LATE_TAG])]
}

let cluster: RedisCluster
const ends: (() => unknown)[] = []

beforeAll(async () => {
  cluster = await startRedisCluster()
})

afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end()
  await onEachPrimary(cluster, (node) => node.flushall())
})

afterAll(() => cluster.stop())

async function open(
  name: ClientName,
  options: ClusterClientOptions = {},
  ownPrefix?: string,
): Promise<Backend> {
  const { client, end } = await openClusterClient(name, cluster, options)
  ends.push(end)
  const own = ownPrefix === undefined ? {} : { keyPrefix: ownPrefix }
  const backend = redisBackend(client, own)
  ends.push(() => backend.close())
  return backend
}

/** Every script that there is, once. */
async function useAllScripts(backend: Backend, lockName: string): Promise<void> {
  const lost = request(lockName)
  await backend.cancel(lockName, lost.owner)
  expect(await backend.tryAcquire(lost)).toMatchObject({ kind: 'held' })
  const first = await acquired(backend, lockName)
  expect((await backend.renew(first, 2 * LONG_MS)).kind).toBe('renewed')
  expect(await backend.proclaim(first, 'v')).toBe('proclaimed')
  const waiting = request(lockName, { waits: true })
  expect(await backend.tryAcquire(waiting)).toMatchObject({ kind: 'held' })
  const passed = await backend.handOver?.(first, request(lockName), true)
  if (passed?.kind !== 'handed-over') throw new Error('not handed over')
  expect(passed).toMatchObject({ wanted: true })
  const { fencingToken } = passed.grant
  expect(await backend.inspect(lockName)).toMatchObject({ fencingToken })
  const taken = await backend.revoke(request(lockName), { fencingToken, reason: 'x' })
  if (!taken) throw new Error('not revoked')
  expect(taken.fencingToken).toBeGreaterThan(fencingToken)
  await backend.raise(lockName, taken.fencingToken + 10n)
  expect(await backend.release(taken, 0)).toBe('released')
  const last = await acquired(backend, lockName)
  expect(last.fencingToken).toBeGreaterThan(taken.fencingToken + 10n)
  expect(await backend.release(last, 1)).toBe('released')
}

async function namesIn(list: AsyncIterable<LockInfo>): Promise<string[]> {
  const names: string[] = []
  for await (const { lockName } of list) names.push(lockName)
  return names.sort()
}

/** How often each command was called, over all nodes. */
async function callsOf(command: string): Promise<number> {
  const counts = await onEachPrimary(cluster, async (node) => {
    const stats = await node.info('commandstats')
    return Number(new RegExp(`cmdstat_${command}:calls=(\\d+)`).exec(stats)?.[1] ?? 0)
  })
  return counts.reduce((sum, count) => sum + count, 0)
}

describe.each(CLIENT_NAMES)('a cluster client of %s', (name) => {
  // B060: one lock with helper keys failed with CROSSSLOT, above all where a name had braces.
  it('runs every script on every name, and leaves nothing without an end', async () => {
    const backend = await open(name)
    for (const lockName of namesFor(name)) await useAllScripts(backend, lockName)
    const withoutEnd = await onEachPrimary(cluster, (node) => keysWithoutTtl(node))
    expect(withoutEnd.flat()).toEqual([])
  })

  // The accident: a listing shows a third of the locks, and an operator believes it.
  it('lists the locks of all primaries, each once, and as many as asked for', async () => {
    const backend = await open(name)
    const names = Array.from({ length: 60 }, (_, index) => `n${String(index).padStart(2, '0')}`)
    for (const lockName of [...names, 'other']) await acquired(backend, lockName)
    const held = await onEachPrimary(cluster, async (node) => (await node.keys('lock:n*')).length)
    expect(held.every((count) => count > 0)).toBe(true)
    expect(await namesIn(backend.list('n', 1000))).toEqual(names)
    expect(await namesIn(backend.list('', 1000))).toEqual([...names, 'other'])
    expect(await namesIn(backend.list('n', 7))).toHaveLength(7)
    expect(await namesIn(backend.list('nothing', 7))).toEqual([])
  })

  // B055: each node has a script cache of its own, and a new primary an empty one.
  it('goes on after SCRIPT FLUSH on all nodes, with one EVAL for each node', async () => {
    const backend = await open(name)
    const thirds = THIRDS.map((third) => Math.floor((3 * slotOf(`lock:${third}`)) / 16_384))
    expect(thirds).toEqual([0, 1, 2])
    const grants = await Promise.all(THIRDS.map((third) => acquired(backend, third)))
    for (const grant of grants) await backend.renew(grant, LONG_MS)
    await onEachPrimary(cluster, async (node) => {
      await node.script('FLUSH')
      await node.config('RESETSTAT')
    })
    for (const grant of [...grants, ...grants]) {
      expect((await backend.renew(grant, LONG_MS)).kind).toBe('renewed')
    }
    expect(await callsOf('eval')).toBe(3)
    expect(await callsOf('evalsha')).toBe(6)
  })

  // B057: a client that reads from replicas sent the scripts of locks there too, and every one failed.
  it('that reads from replicas sends scripts to primaries all the same', async () => {
    const backend = await open(name, { readsReplicas: true })
    for (const lockName of namesFor(name)) await useAllScripts(backend, lockName)
    expect(await namesIn(backend.list('', 10))).toEqual([])
  })

  // Without push a contender would sleep here for ever: the suite's own wake-ups are by the same way.
  it('wakes those who wait on other nodes, through a connection that ends with it', async () => {
    const ours = await open(name)
    const { client, end } = await openClusterClient(name, cluster)
    const theirs = redisBackend(client)
    for (const lockName of THIRDS) {
      const grant = await acquired(ours, lockName)
      await theirs.tryAcquire(request(lockName, { waits: true }))
      const controller = new AbortController()
      let isAwake = false
      const sleeping = theirs.wakeUp?.(lockName, controller.signal).then(() => {
        isAwake = true
      })
      await until(async () => (await subscriptionsTo(`lock:${lockName}`)) > 0, 'it is subscribed')
      expect(isAwake).toBe(false)
      await ours.release(grant, 0)
      await until(() => isAwake, 'the release wakes it')
      await sleeping
    }
    // One more goes to sleep, the client that was duplicated is ended, and nobody calls close().
    await acquired(ours, 'e')
    const controller = new AbortController()
    const sleeping = theirs.wakeUp?.('e', controller.signal)
    await until(async () => (await subscriptionsTo('lock:e')) > 0, 'it is subscribed')
    end()
    await until(async () => (await subscriptionsTo('lock:e')) === 0, 'the connection is ended')
    controller.abort()
    await sleeping
  })
})

async function subscriptionsTo(pattern: string): Promise<number> {
  const counts = await Promise.all(
    cluster.nodes.map(async ({ port }) => {
      const node = await openInspector(port)
      const channels = (await node.pubsub('CHANNELS', pattern)) as unknown[]
      node.disconnect()
      return channels.length
    }),
  )
  return counts.reduce((sum, count) => sum + count, 0)
}

describe('keys in a cluster', () => {
  // B060: the oracle is the server: a script whose keys lie apart is refused with CROSSSLOT.
  it('of random names and prefixes lie in one slot for the server too', async () => {
    const text = string({ unit: constantFrom('{', '}', 'a', ':', '锁'), maxLength: 8 })
    const name = string({
      unit: constantFrom('{', '}', 'a', ':', '锁'),
      minLength: 1,
      maxLength: 8,
    })
    const prefix = text.filter((chars) => !/^[^{]*\{(\}|[^}]*$)/.test(chars))
    const opened = await openClusterClient('ioredis 6', cluster)
    ends.push(opened.end)
    await assert(
      asyncProperty(prefix, name, async (keyPrefix, lockName) => {
        const backend = redisBackend(opened.client, { keyPrefix, subscriber: false })
        await useAllScripts(backend, lockName)
        await backend.raise(lockName, 1n)
        await onEachPrimary(cluster, (node) => node.flushall())
      }),
      { numRuns: 40 },
    )
  })

  const PREFIXING = ['ioredis 5', 'ioredis 6', 'node-redis 6'] as const

  // A prefix of the client's own moves the lock's slot, and is seen by the server alone.
  it.each(PREFIXING)('follow the prefix that a client of %s has of its own', async (name) => {
    for (const keyPrefix of ['app1:', '{app1}:', '}app1:']) {
      const backend = await open(name, { keyPrefix })
      for (const lockName of namesFor(name)) await useAllScripts(backend, lockName)
      const grant = await acquired(backend, 'a')
      expect(await namesIn(backend.list('', 10))).toEqual(['a'])
      const keys = (await onEachPrimary(cluster, allKeys)).flat()
      expect(keys.every((key) => key.startsWith(`${keyPrefix}lock:`))).toBe(true)
      expect(await backend.release(grant, 0)).toBe('released')
      await onEachPrimary(cluster, (node) => node.flushall())
    }
  })

  it.each(PREFIXING)(
    'are refused, behind a client of %s, when a prefix splits them',
    async (name) => {
      const open2 = (keyPrefix: string) => open(name, { keyPrefix }, 'b')
      for (const keyPrefix of ['{', '{}', 'a{']) {
        const backend = await open2(keyPrefix)
        await expect(backend.tryAcquire(request('a'))).rejects.toMatchObject({
          code: 'INVALID_ARGUMENT',
          message: expect.stringContaining('keyPrefix'),
        })
        await expect(backend.cancel('a', 'o'.repeat(22))).rejects.toMatchObject({
          code: 'INVALID_ARGUMENT',
        })
      }
      // Two halves that are whole together.
      const whole = await open(name, { keyPrefix: '{app' }, '1}:')
      await useAllScripts(whole, 'a')
      const keys = (await onEachPrimary(cluster, allKeys)).flat()
      expect(keys.every((key) => key.startsWith('{app1}:'))).toBe(true)
    },
  )

  // B060, where it is the client that is wrong: refused in words, and nothing is taken.
  it('of a name whose slot node-redis 5 computes wrongly are refused', async () => {
    const backend = await open('node-redis 5')
    await expect(backend.tryAcquire(request(LATE_TAG))).rejects.toMatchObject({
      code: 'BACKEND_UNAVAILABLE',
      why: 'down',
      message: expect.stringContaining('cluster'),
    })
    expect((await onEachPrimary(cluster, allKeys)).flat()).toEqual([])
  })

  // One counter for all would be one hot key, and one per name would never end.
  it('count the tokens of a slot in one key, and those of names apart', async () => {
    const backend = await open('ioredis 6')
    for (const lockName of ['{t}1', '{t}2', '{u}1']) {
      await backend.release(await acquired(backend, lockName), 0)
    }
    const counters = (await onEachPrimary(cluster, allKeys)).flat()
    expect(counters.filter((key) => key.includes('#hf:token:'))).toHaveLength(2)
  })
})

/**
 * Locks by a client of ioredis as it is by itself: it connects to a node when it first needs it, and
 * so far needed one or two of three. It may have needed them all: after a failover nodes send it to
 * another one.
 */
async function openHalfConnected(enableOfflineQueue: boolean): Promise<Backend> {
  const nodes = cluster.nodes.map(({ port }) => ({ host: '127.0.0.1', port }))
  for (let count = 0; count < 10; count++) {
    const client = new Cluster(nodes, { enableOfflineQueue, retryDelayOnFailover: 0 })
    ends.push(() => client.disconnect())
    await until(() => client.status === 'ready', 'the client is connected')
    const backend = redisBackend(client, { subscriber: false })
    await acquired(backend, `first:${enableOfflineQueue}${count}`)
    if (client.nodes('master').some(({ status }) => status === 'wait')) return backend
  }
  throw new Error('ten clients were connected to all nodes from the beginning')
}

describe('locks in a cluster', () => {
  // A fence that has seen tokens of the one Redis before would refuse those of the cluster after it.
  it('are of the same source as those of one Redis', async () => {
    const backend = await open('ioredis 6')
    expect((await acquired(backend, 'a')).source).toBe('redis:lock:')
  })

  // What docs/backends/redis.md says of ioredis' queue: why that one setting differs from one Redis.
  it('can be acquired at once by ioredis with its queue, and not without it', async () => {
    for (const enableOfflineQueue of [true, false]) {
      const backend = await openHalfConnected(enableOfflineQueue)
      const outcomes = await Promise.allSettled(
        Array.from({ length: 30 }, (_, index) =>
          acquired(backend, `${enableOfflineQueue}${index}`),
        ),
      )
      const failed = outcomes.flatMap((outcome) =>
        outcome.status === 'rejected' ? [String(outcome.reason.code)] : [],
      )
      if (enableOfflineQueue) expect(failed).toEqual([])
      else expect(new Set(failed)).toEqual(new Set(['OUTCOME_UNKNOWN']))
    }
  })

  // B060: several names at once were several slots, and failed. Here each is a lock of its own.
  it('of several slots are held together, one acquired after the other', async () => {
    const { client, end } = await openClusterClient('node-redis 6', cluster)
    const locks = createLocks(redisBackend(client))
    ends.push(end, () => locks.close())
    const leases = []
    for (const lockName of namesFor('node-redis 6').sort())
      leases.push(await locks.tryAcquire(lockName))
    expect(leases.every((lease) => lease !== null)).toBe(true)
    for (const lease of leases.reverse()) expect(await lease?.release()).toBe('released')
  })
})
