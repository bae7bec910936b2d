/**
 * Other lock libraries, each used as its own page says, on one Redis.
 *
 * They wait for a held lock by asking again; where the pause between two tries can be set it is 10 ms
 * (the default of redis-semaphore) and up to 5 ms more or less. The defaults of the others, 100 to
 * 200 ms, suit locks that are rarely held, and would lose here for no fault of the library.
 *
 * They are loaded when they are used: the bench runs without them too. Their types are declared here
 * as far as they are called, because two of them were compiled against older clients.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { openEither, openIoredis, openNodeRedis } from '../clients.ts'
import {
  type ClientName,
  type Contestant,
  type Locker,
  RETRIES_MAX,
  RETRY_JITTER_MS,
  RETRY_MS,
  TTL_MS,
  WAIT_MS,
} from '../contestant.ts'
import { load } from './load.ts'

const CLOSE_MS_MAX = 5_000

type Connect = (port: number, client: ClientName) => Promise<Locker>

interface Peer {
  readonly name: string
  readonly clients: readonly ClientName[]
  readonly hasToken?: true
  readonly connect: Connect
}

const NODE_REDIS = ['node-redis', 'node-redis, timeout 0'] as const

const PEERS: readonly Peer[] = [
  { name: 'redlock 4', clients: ['ioredis'], connect: redlock4 },
  { name: 'redlock 5 beta', clients: ['ioredis'], connect: redlock5 },
  { name: '@sesamecare-oss/redlock', clients: ['ioredis'], connect: sesamecare },
  { name: 'redis-semaphore', clients: ['ioredis'], connect: redisSemaphore },
  { name: 'redlock-universal', clients: ['ioredis', ...NODE_REDIS], connect: redlockUniversal },
  { name: '@redis-kit/lock', clients: NODE_REDIS, connect: redisKit },
  {
    name: 'simple-redis-mutex',
    clients: NODE_REDIS,
    hasToken: true,
    connect: simpleRedisMutex,
  },
]

/** All of them delete a key only if it still holds their own random value. */
export function peersOn(client: ClientName): Contestant[] {
  return PEERS.filter(({ clients }) => clients.includes(client)).map((peer) => ({
    who: peer.name,
    variant: '',
    client,
    isOwnerChecked: true,
    hasToken: peer.hasToken === true,
    connect: (port) => peer.connect(port, client),
  }))
}

const REDLOCK_SETTINGS = {
  retryCount: RETRIES_MAX,
  retryDelay: RETRY_MS,
  retryJitter: RETRY_JITTER_MS,
}

interface Redlock4 {
  new (
    clients: readonly unknown[],
    settings: object,
  ): { lock(name: string, ttlMs: number): Promise<{ unlock(): Promise<void> }> }
}

async function redlock4(port: number): Promise<Locker> {
  const { default: Redlock } = await load<{ default: Redlock4 }>('redlock')
  const client = await openIoredis(port)
  const redlock = new Redlock([client], REDLOCK_SETTINGS)
  return {
    acquire: async (lockName) => {
      const lock = await redlock.lock(lockName, TTL_MS)
      return () => lock.unlock()
    },
    close: async () => client.disconnect(),
  }
}

/** Version 5 and the fork of it. */
export interface Redlock5 {
  new (
    clients: readonly unknown[],
    settings: object,
  ): {
    on(event: 'error', listener: () => void): unknown
    acquire(names: readonly string[], ttlMs: number): Promise<{ release(): Promise<unknown> }>
  }
}

async function redlock5(port: number): Promise<Locker> {
  const { default: Redlock } = await load<{ default: Redlock5 }>('redlock5')
  return redlock5Locker(Redlock, port)
}

async function sesamecare(port: number): Promise<Locker> {
  const { Redlock } = await load<{ Redlock: Redlock5 }>('@sesamecare-oss/redlock')
  return redlock5Locker(Redlock, port)
}

async function redlock5Locker(Redlock: Redlock5, port: number): Promise<Locker> {
  const client = await openIoredis(port)
  const redlock = new Redlock([client], REDLOCK_SETTINGS)
  // It emits every refusal as an error, which would end the process.
  redlock.on('error', () => undefined)
  return {
    acquire: async (lockName) => {
      const lock = await redlock.acquire([lockName], TTL_MS)
      return async () => {
        await lock.release()
      }
    },
    close: async () => client.disconnect(),
  }
}

export interface SemaphoreMutex {
  new (
    client: unknown,
    name: string,
    settings: object,
  ): { acquire(): Promise<void>; release(): Promise<void> }
}

async function redisSemaphore(port: number): Promise<Locker> {
  const { Mutex } = await load<{ Mutex: SemaphoreMutex }>('redis-semaphore')
  const client = await openIoredis(port)
  const settings = { lockTimeout: TTL_MS, acquireTimeout: WAIT_MS, retryInterval: RETRY_MS }
  return {
    acquire: async (lockName) => {
      // An object is one contender: its identifier is what excludes others.
      const mutex = new Mutex(client, lockName, settings)
      await mutex.acquire()
      return () => mutex.release()
    },
    close: async () => client.disconnect(),
  }
}

export interface UniversalLock<H> {
  acquire(): Promise<H>
  release(handle: H): Promise<boolean>
}

export interface Universal {
  readonly IoredisAdapter: new (client: unknown) => object
  readonly NodeRedisAdapter: new (client: unknown) => object
  createLock(config: object): UniversalLock<unknown>
}

async function redlockUniversal(port: number, name: ClientName): Promise<Locker> {
  const universal = await load<Universal>('redlock-universal')
  const { IoredisAdapter, NodeRedisAdapter, createLock } = universal
  const { client, end } = await openEither(name, port)
  const adapter = new (name === 'ioredis' ? IoredisAdapter : NodeRedisAdapter)(client)
  const retries = { retryAttempts: RETRIES_MAX, retryDelay: RETRY_MS }
  // Made once for a name, and meant to be used again.
  const known = new Map<string, UniversalLock<unknown>>()
  return {
    acquire: async (lockName) => {
      let lock = known.get(lockName)
      if (lock === undefined) {
        lock = createLock({ adapter, key: lockName, ttl: TTL_MS, ...retries })
        known.set(lockName, lock)
      }
      const held = lock
      const handle = await held.acquire()
      return async () => {
        if (!(await held.release(handle))) throw new Error(`${lockName} was lost`)
      }
    },
    close: async () => end(),
  }
}

export interface KitRedlock {
  new (
    clients: readonly unknown[],
    settings: object,
  ): { acquire(name: string, ttlMs: number): Promise<{ release(): Promise<boolean> } | null> }
}

async function redisKit(port: number, name: ClientName): Promise<Locker> {
  const { Redlock } = await load<{ Redlock: KitRedlock }>('@redis-kit/lock')
  const client = await openNodeRedis(port, name)
  const redlock = new Redlock([client], {
    retryDelayMs: RETRY_MS,
    retryJitterMs: RETRY_JITTER_MS,
    maxRetryAttempts: RETRIES_MAX,
  })
  return {
    acquire: async (lockName) => {
      const lock = await redlock.acquire(lockName, TTL_MS)
      if (lock === null) throw new Error(`${lockName} was not granted`)
      return async () => {
        if (!(await lock.release())) throw new Error(`${lockName} was lost`)
      }
    },
    close: async () => client.destroy(),
  }
}

interface SimpleMutex {
  lock(
    client: unknown,
    name: string,
    options: { timeout: number; failAfter: number },
  ): Promise<() => Promise<void>>
}

async function simpleRedisMutex(port: number, name: ClientName): Promise<Locker> {
  const { lock } = await load<SimpleMutex>('simple-redis-mutex')
  const client = await openNodeRedis(port, name)
  // It keeps one subscriber for all of a process, made of the first client, and ends it some time
  // after that client: a server that ends first would meet a listener that throws.
  const subscribers: { readonly isOpen: boolean }[] = []
  const duplicate = client.duplicate.bind(client)
  client.duplicate = ((...given: Parameters<typeof duplicate>) => {
    const subscriber = duplicate(...given)
    subscribers.push(subscriber)
    return subscriber
  }) as typeof client.duplicate
  return {
    acquire: (lockName) => lock(client, lockName, { timeout: TTL_MS, failAfter: WAIT_MS }),
    close: async () => {
      await client.close()
      const endMs = performance.now() + CLOSE_MS_MAX
      while (subscribers.some(({ isOpen }) => isOpen) && performance.now() < endMs) await sleep(5)
    },
  }
}
