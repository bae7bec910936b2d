import { Cluster, Redis } from 'ioredis'
import { Redis as Redis5 } from 'ioredis5'
import { createClient, createClientPool, createCluster, createSentinel } from 'redis'
import { createClient as createClient5, createClientPool as createClientPool5 } from 'redis5'
import { describe, expect, it } from 'vitest'
import { scriptsOf } from '../../../src/clients/redis.ts'
import { clientOptionWarnings } from '../../../src/clients/redis-client-options.ts'
import { InvalidArgumentError } from '../../../src/core/errors.ts'
import { type RedisClient, type RedisSubscriber, redisBackend } from '../../../src/redis.ts'

const LAZY = { lazyConnect: true } as const
const NODE = { name: 'mymaster', sentinelRootNodes: [{ host: '127.0.0.1', port: 1 }] }

/** None of them connects by being made. That the compiler takes each is half of the test. */
const CLIENTS: readonly (readonly [string, string, RedisClient])[] = [
  ['ioredis 5', 'ioredis', new Redis5(LAZY)],
  ['ioredis 6', 'ioredis', new Redis(LAZY)],
  ['ioredis 6 Cluster', 'ioredis', new Cluster([{ host: '127.0.0.1', port: 1 }], LAZY)],
  ['node-redis 5', 'node-redis', createClient5()],
  ['node-redis 5 pool', 'node-redis', createClientPool5()],
  ['node-redis 6', 'node-redis', createClient()],
  ['node-redis 6, RESP 3', 'node-redis', createClient({ RESP: 3 })],
  ['node-redis 6 pool', 'node-redis', createClientPool()],
  ['node-redis 6 cluster', 'node-redis', createCluster({ rootNodes: [{}] })],
  ['node-redis 6 sentinel', 'node-redis', createSentinel(NODE)],
]

describe('a client', () => {
  // B052: the shape was assumed; with another library every attempt failed with a type error.
  it.each(CLIENTS)('of %s is taken for what it is', (_, family, client) => {
    expect(scriptsOf(client).family).toBe(family)
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
  ])('%s: %j is refused, and the message names it', (option, value) => {
    const options = { [option]: value } as never
    expect(() => redisBackend(new Redis(LAZY), options)).toThrow(
      expect.objectContaining({ code: 'INVALID_ARGUMENT', option }),
    )
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
  })

  it('that cannot be read are passed over', () => {
    expect(warned(createClientPool())).toEqual([])
    expect(warned(new Cluster([{ host: '127.0.0.1', port: 1 }], LAZY))).toEqual([])
    const bare = { eval: async () => 1, evalsha: async () => 1 }
    expect(warned(bare)).toEqual([])
  })
})
