import { Cluster, Redis } from 'ioredis'
import { Cluster as Cluster5, Redis as Redis5 } from 'ioredis5'
import { createClient, createClientPool, createCluster, createSentinel } from 'redis'
import {
  createClient as createClient5,
  createClientPool as createClientPool5,
  createCluster as createCluster5,
} from 'redis5'
import { describe, expect, it } from 'vitest'
import { scriptsOf } from '../../../src/clients/redis.ts'
import { clientOptionWarnings } from '../../../src/clients/redis-client-options.ts'
import { InvalidArgumentError } from '../../../src/core/errors.ts'
import { createLocks } from '../../../src/index.ts'
import {
  type RedisClient,
  type RedisOptions,
  type RedisSubscriber,
  redisBackend,
} from '../../../src/redis.ts'

const LAZY = { lazyConnect: true } as const
const NODES = [{ host: '127.0.0.1', port: 1 }]
const NODE = { name: 'mymaster', sentinelRootNodes: [{ host: '127.0.0.1', port: 1 }] }

/** None of them connects by being made. That the compiler takes each is half of the test. */
const CLIENTS: readonly (readonly [string, string, RedisClient])[] = [
  ['ioredis 5', 'ioredis', new Redis5(LAZY)],
  ['ioredis 6', 'ioredis', new Redis(LAZY)],
  ['ioredis 5 Cluster', 'ioredis', new Cluster5(NODES, LAZY)],
  ['ioredis 6 Cluster', 'ioredis', new Cluster(NODES, LAZY)],
  ['node-redis 5', 'node-redis', createClient5()],
  ['node-redis 5 pool', 'node-redis', createClientPool5()],
  ['node-redis 6', 'node-redis', createClient()],
  ['node-redis 6, RESP 3', 'node-redis', createClient({ RESP: 3 })],
  ['node-redis 6 pool', 'node-redis', createClientPool()],
  ['node-redis 5 cluster', 'node-redis', createCluster5({ rootNodes: [{}] })],
  ['node-redis 6 cluster', 'node-redis', createCluster({ rootNodes: [{}] })],
  ['node-redis 6 sentinel', 'node-redis', createSentinel(NODE)],
]

describe('a client', () => {
  // B052: the shape was assumed; with another library every attempt failed with a type error.
  it.each(CLIENTS)('of %s is taken for what it is', (title, family, client) => {
    expect(scriptsOf(client).family).toBe(family)
    expect(scriptsOf(client).isCluster).toBe(/cluster/i.test(title))
    expect(redisBackend(client).capabilities.scope).toBe('network')
  })

  it.each([
    ['nothing', undefined],
    ['null', null],
    ['a URL', 'redis://:secret@localhost'],
    ['a function', () => undefined],
    ['an object of another kind', { get: () => undefined, set: () => undefined }],
    ['a client without EVALSHA', { eval: () => undefined }],
    ['another library', { eval: 1, evalsha: 2 }],
  ])('that is %s is refused when the backend is made', (_, given) => {
    expect(() => redisBackend(given as unknown as RedisClient)).toThrow(InvalidArgumentError)
    expect(() => redisBackend(given as unknown as RedisClient)).toThrow(/^client is /)
  })

  it('of its own for push may be of any version', () => {
    const subscribers: RedisSubscriber[] = [
      new Redis5(LAZY),
      new Redis(LAZY),
      createClient5(),
      createClient(),
    ]
    for (const subscriber of subscribers) {
      const { capabilities } = redisBackend(new Redis(LAZY), { subscriber })
      expect(capabilities.wakeUp).toBe('push')
    }
  })

  it('that cannot be duplicated, or must not, makes its contenders poll', () => {
    const polling = redisBackend(new Redis(LAZY), { subscriber: false })
    expect(polling.capabilities.wakeUp).toBe('poll')
    expect(polling.wakeUp).toBeUndefined()
    const pool = redisBackend(createClientPool())
    expect(pool.capabilities.wakeUp).toBe('poll')
    expect(pool.wakeUp).toBeUndefined()
    expect(redisBackend(new Redis(LAZY)).wakeUp).toBeTypeOf('function')
  })
})

describe('options of the backend', () => {
  it.each([
    ['keyPrefix', 'x'.repeat(65)],
    ['keyPrefix', 'é'.repeat(33)],
    ['keyPrefix', 7],
    ['keyPrefix', 'a\0b'],
    ['keyPrefix', '\ud800'],
    ['sourceId', 'x'.repeat(65)],
    ['sourceId', null],
    ['subscriber', true],
    ['subscriber', null],
    ['subscriber', { subscribe: () => undefined }],
    ['prefix', 'lock:'],
    ['onEmpty', 'refuse'],
    ['onEmpty', true],
    ['ttlMsMax', 99],
    ['ttlMsMax', 86_400_001],
    ['ttlMsMax', 1000.5],
    ['ttlMsMax', '1000'],
    ['replicas', 1],
    ['replicas', null],
    ['replicas', [1]],
  ])('%s: %j is refused, and the message names it', (option, value) => {
    const options = { [option]: value } as never
    expect(() => redisBackend(new Redis(LAZY), options)).toThrow(
      expect.objectContaining({ code: 'INVALID_ARGUMENT', option }),
    )
  })

  it.each([
    ['replicas.count', {}],
    ['replicas.count', { count: 0 }],
    ['replicas.count', { count: 101 }],
    ['replicas.count', { count: 1.5 }],
    ['replicas.timeoutMs', { count: 1, timeoutMs: 0 }],
    ['replicas.timeoutMs', { count: 1, timeoutMs: 1001 }],
    ['replicas.wait', { count: 1, wait: 5 }],
  ])('%s of %j is refused, and the message names it', (option, replicas) => {
    expect(() => redisBackend(new Redis(LAZY), { replicas } as never)).toThrow(
      expect.objectContaining({ code: 'INVALID_ARGUMENT', option }),
    )
  })

  // WAIT and the marker are bound to one node; across a cluster they would say yes of nothing.
  it('that one server can keep are refused for a cluster', () => {
    const clusters = [
      new Cluster([{ host: '127.0.0.1', port: 1 }], LAZY),
      createCluster({ rootNodes: [{}] }),
    ]
    for (const cluster of clusters) {
      expect(() => redisBackend(cluster, { onEmpty: 'wait' })).toThrow(/^onEmpty is "wait"/)
      expect(() => redisBackend(cluster, { replicas: { count: 1 } })).toThrow(/^replicas is /)
    }
    const bare = { eval: async () => 1, evalsha: async () => 1 }
    expect(() => redisBackend(bare, { replicas: { count: 1 } })).toThrow(/without pipelines/)
  })

  it('bound the TTL: a day by default, a minute where a server waits that long', () => {
    const longest = (options: RedisOptions): number =>
      redisBackend(new Redis(LAZY), options).capabilities.ttlMsMax
    expect(longest({})).toBe(86_400_000)
    expect(longest({ onEmpty: 'wait' })).toBe(60_000)
    expect(longest({ onEmpty: 'wait', ttlMsMax: 5000 })).toBe(5000)
    expect(longest({ ttlMsMax: 5000 })).toBe(5000)
  })

  // A renewal is given up after a tenth of the TTL: with a longer wait for replicas none was ever
  // confirmed, and every lease was lost.
  it('bound the TTL from below by the time that replicas get', () => {
    const shortest = (options: RedisOptions): number =>
      redisBackend(new Redis(LAZY), options).capabilities.ttlMsMin
    expect(shortest({})).toBe(100)
    expect(shortest({ replicas: { count: 1 } })).toBe(1000)
    expect(shortest({ replicas: { count: 1, timeoutMs: 5 } })).toBe(100)
    const slow = redisBackend(new Redis(LAZY), { replicas: { count: 1, timeoutMs: 500 } })
    expect(() => createLocks(slow, { ttlMs: 4999 })).toThrow(/^ttlMs is 4999.* 5000 /)
    createLocks(slow, { ttlMs: 5000 })
    const options = { ttlMsMax: 4999, replicas: { count: 1, timeoutMs: 500 } }
    expect(() => redisBackend(new Redis(LAZY), options)).toThrow(/^replicas.timeoutMs is 500.*4999/)
  })

  it('that are undefined are not given', () => {
    const given = { keyPrefix: undefined, subscriber: undefined, sourceId: undefined }
    expect(redisBackend(new Redis(LAZY), given).capabilities.wakeUp).toBe('push')
    expect(() => redisBackend(new Redis(LAZY), { keyPrefix: '', sourceId: 'eu-1' })).not.toThrow()
    expect(() => redisBackend(new Redis(LAZY), [] as never)).toThrow(InvalidArgumentError)
  })
})

describe('settings of a client', () => {
  const warned = (client: RedisClient): (readonly [string | undefined, unknown])[] =>
    clientOptionWarnings(client, scriptsOf(client).family).map(({ option, value }) => [
      option,
      value,
    ])

  // A request that its caller gave up was sent from the queue after the reconnect, and held a lock
  // that nobody knew of.
  it('by which locks are lost or orphaned are named, with the value to set', () => {
    for (const client of [new Redis5(LAZY), new Redis(LAZY)]) {
      expect(warned(client)).toEqual([
        ['enableOfflineQueue', true],
        ['autoResendUnfulfilledCommands', true],
        ['maxRetriesPerRequest', 20],
      ])
    }
    expect(warned(new Redis({ ...LAZY, maxRetriesPerRequest: null }))).toContainEqual([
      'maxRetriesPerRequest',
      null,
    ])
    for (const client of [createClient5(), createClient()]) {
      expect(warned(client)).toEqual([['disableOfflineQueue', undefined]])
    }
    expect(warned(new Cluster(NODES, LAZY))).toEqual([
      ['retryDelayOnFailover', 100],
      ['retryDelayOnClusterDown', 100],
    ])
    // B057: the locks were asked of replicas, and every acquire failed.
    const sentinels = [{ host: '127.0.0.1', port: 1 }]
    const reading = new Redis({ ...LAZY, sentinels, name: 'mymaster', role: 'slave' })
    expect(warned(reading)).toContainEqual(['role', 'slave'])
    const [warning] = clientOptionWarnings(createClient(), 'node-redis')
    expect(warning?.code).toBe('client-option')
    expect(warning?.advice).toMatch(/^set disableOfflineQueue: true on the client/)
  })

  it('that are as they should be are not', () => {
    const careful = {
      ...LAZY,
      enableOfflineQueue: false,
      autoResendUnfulfilledCommands: false,
      maxRetriesPerRequest: 0,
    }
    for (const client of [new Redis5(careful), new Redis(careful)])
      expect(warned(client)).toEqual([])
    expect(warned(createClient5({ disableOfflineQueue: true }))).toEqual([])
    expect(warned(createClient({ disableOfflineQueue: true }))).toEqual([])
    const carefulCluster = { ...LAZY, retryDelayOnFailover: 0, retryDelayOnClusterDown: 0 }
    expect(warned(new Cluster(NODES, carefulCluster))).toEqual([])
  })

  it('that cannot be read are passed over', () => {
    expect(warned(createClientPool())).toEqual([])
    expect(warned(createCluster({ rootNodes: [{}] }))).toEqual([])
    const bare = { eval: async () => 1, evalsha: async () => 1 }
    expect(warned(bare)).toEqual([])
  })
})
