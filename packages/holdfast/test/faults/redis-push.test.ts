import { setTimeout as sleep, setImmediate as turn } from 'node:timers/promises'
import { Redis } from 'ioredis'
import { createClient } from 'redis'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { type RedisServer, startRedis } from '../../../cli/src/lab/servers/index.ts'
import { redisBackendWith } from '../../src/backends/redis/redis-backend.ts'
import type { Backend, Grant } from '../../src/core/backend.ts'
import { systemSeams } from '../../src/core/seams.ts'
import { createLocksWith } from '../../src/lock/lock.ts'
import type { RedisOptions } from '../../src/redis.ts'
import { acquired, granted, request } from '../../src/testkit/backend-harness.ts'
import { startProxy } from '../../src/testkit/proxy.ts'
import {
  CLIENT_NAMES,
  type ClientName,
  type ClientOptions,
  openClient,
  openInspector,
  until,
} from '../support/redis.ts'

let server: RedisServer
let redis: Redis
const ends: (() => unknown)[] = []

beforeEach(async () => {
  server = await startRedis()
  redis = await openInspector(server.port)
})

afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end()
  redis.disconnect()
  await server.stop()
})

async function open(
  name: ClientName = 'ioredis 6',
  options: RedisOptions & { port?: number; client?: ClientOptions } = {},
): Promise<Backend> {
  const { port = server.port, client: clientOptions, ...rest } = options
  const { client, end } = await openClient(name, port, clientOptions)
  const backend = redisBackendWith(systemSeams, client, rest)
  ends.push(end, () => backend.close())
  return backend
}

/** A wake-up that a test can look at. */
interface Sleeper {
  isAwake: boolean
  abort(): void
}

function sleeper(backend: Backend, lockName: string): Sleeper {
  const controller = new AbortController()
  const seen = { isAwake: false, abort: () => controller.abort() }
  const note = (): void => {
    seen.isAwake = true
  }
  const { wakeUp } = backend
  if (!wakeUp) throw new Error('this backend polls')
  // A rejection would be told by vitest: nothing here may reject unhandled.
  void wakeUp.call(backend, lockName, controller.signal).then(note)
  ends.push(() => controller.abort())
  return seen
}

async function subscribers(channel: string): Promise<number> {
  const [, count] = (await redis.pubsub('NUMSUB', channel)) as [string, number]
  return Number(count)
}

async function contended(ours: Backend, theirs: Backend, lockName = 'k') {
  const grant = await acquired(theirs, lockName)
  expect((await ours.tryAcquire(request(lockName, { waits: true }))).kind).toBe('held')
  return grant
}

describe.each(CLIENT_NAMES)('%s', (name) => {
  it('is woken by a release, over one connection of its own for all names', async () => {
    const ours = await open(name)
    const theirs = await open(name, { subscriber: false })
    const before = await connections()
    const grants: Grant[] = []
    const sleepers: Sleeper[] = []
    for (const lockName of ['a', 'b', 'c']) {
      grants.push(await contended(ours, theirs, lockName))
      sleepers.push(sleeper(ours, lockName))
    }
    await until(async () => (await subscribers('lock:c')) === 1, 'it listens')
    expect(await connections()).toBe(before + 1)
    await sleep(200)
    expect(sleepers.some(({ isAwake }) => isAwake)).toBe(false)
    for (const grant of grants) await theirs.release(grant, 0)
    await until(() => sleepers.every(({ isAwake }) => isAwake), 'all are awake')
  })

  // A prefix of the client's own applies to channels in none of the four clients; the channel must be
  // the key as the server sees it, and the refusal tells it.
  it('listens to the key as the server sees it, whatever the client puts before it', async () => {
    const keyPrefix = name === 'node-redis 5' ? '' : 'app1:'
    const client = keyPrefix ? { keyPrefix } : {}
    const ours = await open(name, { client })
    const theirs = await open('ioredis 6', { keyPrefix: `${keyPrefix}lock:` })
    const grant = await contended(ours, theirs)
    const seen = sleeper(ours, 'k')
    await until(async () => (await subscribers(`${keyPrefix}lock:k`)) === 1, 'it listens')
    await theirs.release(grant, 0)
    await until(() => seen.isAwake, 'it is awake')
  })

  it('is connected again after the connection broke, and asks what it missed', async () => {
    const proxy = await startProxy(server.port)
    ends.push(() => proxy.close())
    const ours = await open(name, { port: proxy.port })
    const theirs = await open(name, { subscriber: false })
    const grant = await contended(ours, theirs)
    const seen = sleeper(ours, 'k')
    await until(async () => (await subscribers('lock:k')) === 1, 'it listens')
    proxy.reset()
    await theirs.release(grant, 0)
    await until(() => seen.isAwake, 'it is awake')
    const next = await acquired(theirs, 'k')
    await until(async () => (await refusals(ours)) > 0, 'the client is connected again')
    let again = sleeper(ours, 'k')
    await until(async () => (await subscribers('lock:k')) === 1, 'it listens again')
    await until(async () => {
      await sleep(100)
      if (!again.isAwake) return true
      // Once more because of what could not be asked while the client was not connected.
      again = sleeper(ours, 'k')
      return false
    }, 'it sleeps')
    await theirs.release(next, 0)
    await until(() => again.isAwake, 'it is awake again')
  })

  // A server that goes away for good: 'error' events and rejections of the second connection must
  // not end the process.
  it('survives a server that dies, and ends its connection with the client', async () => {
    const { client, end } = await openClient(name, server.port)
    const backend = redisBackendWith(systemSeams, client, {})
    const theirs = await open(name, { subscriber: false })
    await contended(backend, theirs)
    const seen = sleeper(backend, 'k')
    await until(async () => (await subscribers('lock:k')) === 1, 'it listens')
    end()
    await until(async () => (await subscribers('lock:k')) === 0, 'its connection is gone too')
    seen.abort()
    await until(() => seen.isAwake, 'it settled')
    const other = await open(name)
    expect((await other.tryAcquire(request('k', { waits: true }))).kind).toBe('held')
    const second = sleeper(other, 'k')
    await server.kill()
    await sleep(300)
    second.abort()
    await until(() => second.isAwake, 'it settled')
    await backend.close()
  })
})

async function connections(): Promise<number> {
  return String(await redis.client('LIST'))
    .trim()
    .split('\n').length
}

async function refusals(backend: Backend): Promise<number> {
  return backend.tryAcquire(request('k', { waits: true })).then(
    ({ kind }) => (kind === 'held' ? 1 : 0),
    () => 0,
  )
}

describe('a wake-up', () => {
  // B063: the release was published between the failed try and the end of the subscription, and the
  // contender slept through the whole lease beside a free lock.
  it('is not lost between the refusal and the subscription', async () => {
    const proxy = await startProxy(server.port)
    ends.push(() => proxy.close())
    const { client, end } = await openClient('ioredis 6', server.port)
    const subscriber = new Redis({ port: proxy.port })
    subscriber.on('error', () => undefined)
    ends.push(() => subscriber.disconnect(), end)
    const ours = redisBackendWith(systemSeams, client, { subscriber })
    const theirs = await open('ioredis 6', { subscriber: false })
    ends.push(() => ours.close())
    await until(() => subscriber.status === 'ready', 'the subscriber is connected')
    proxy.delay('toClient', 300)
    const grant = await contended(ours, theirs)
    const seen = sleeper(ours, 'k')
    await sleep(50)
    await theirs.release(grant, 0)
    expect(seen.isAwake).toBe(false)
    // Nobody polls here: what was published is gone, so only the question after it can wake.
    await until(() => seen.isAwake, 'it is awake')
    granted(await ours.tryAcquire(request('k')))
  })

  it('that comes between two sleeps ends the second at once', async () => {
    const ours = await open()
    const theirs = await open('ioredis 6', { subscriber: false })
    await contended(ours, theirs)
    const first = sleeper(ours, 'k')
    await until(async () => (await subscribers('lock:k')) === 1, 'it listens')
    await redis.publish('lock:k', '')
    await until(() => first.isAwake, 'the first is awake')
    await redis.publish('lock:k', '')
    await sleep(100)
    const second = sleeper(ours, 'k')
    await sleep(20)
    expect(second.isAwake).toBe(true)
    const third = sleeper(ours, 'k')
    await sleep(50)
    expect(third.isAwake).toBe(false)
  })

  it('wakes everybody who sleeps on the name, and nobody else', async () => {
    const ours = await open()
    const theirs = await open('ioredis 6', { subscriber: false })
    await contended(ours, theirs, 'a')
    await contended(ours, theirs, 'b')
    const sleepers = Array.from({ length: 50 }, () => sleeper(ours, 'a'))
    const elsewhere = sleeper(ours, 'b')
    await until(async () => (await subscribers('lock:b')) === 1, 'they listen')
    await redis.publish('lock:a', '')
    await until(() => sleepers.every(({ isAwake }) => isAwake), 'all are awake')
    expect(elsewhere.isAwake).toBe(false)
  })

  // A subscription for every name that was ever waited for would grow without bound.
  it('leaves no subscription behind, but a moment of it for who sleeps again', async () => {
    const ours = await open()
    const theirs = await open('ioredis 6', { subscriber: false })
    await contended(ours, theirs)
    const first = sleeper(ours, 'k')
    await until(async () => (await subscribers('lock:k')) === 1, 'it listens')
    first.abort()
    await sleep(500)
    expect(await subscribers('lock:k')).toBe(1)
    const again = sleeper(ours, 'k')
    await sleep(2500)
    expect(again.isAwake).toBe(false)
    expect(await subscribers('lock:k')).toBe(1)
    again.abort()
    await until(async () => (await subscribers('lock:k')) === 0, 'nobody listens', 20_000)
  })

  it('without rights on the channel just does not come', async () => {
    const rules = ['on', '>geheim', '~*', '+@all', 'resetchannels']
    await redis.call('ACL', 'SETUSER', 'app', ...rules)
    const client = { username: 'app', password: 'geheim' }
    for (const name of CLIENT_NAMES) {
      const ours = await open(name, { client })
      const theirs = await open('ioredis 6', { subscriber: false })
      const grant = await contended(ours, theirs, name)
      const seen = sleeper(ours, name)
      await sleep(300)
      expect(seen.isAwake).toBe(false)
      await theirs.release(grant, 0)
      const locks = createLocksWith(systemSeams, ours)
      const held = await acquired(theirs, name)
      const waiting = locks.acquire(name, { waitMs: 15_000 })
      await sleep(50)
      await theirs.release(held, 0)
      await (await waiting).release()
      seen.abort()
      await until(() => seen.isAwake, 'it settled')
    }
  })

  it('comes through a connection that the user gave, which is left as it was', async () => {
    const subscriber = createClient({ socket: { host: '127.0.0.1', port: server.port } })
    subscriber.on('error', () => undefined)
    await subscriber.connect()
    ends.push(() => subscriber.destroy())
    // Of the other family than the client beside it.
    const ours = await open('ioredis 5', { subscriber })
    const theirs = await open('ioredis 6', { subscriber: false })
    const grant = await contended(ours, theirs)
    const seen = sleeper(ours, 'k')
    await until(async () => (await subscribers('lock:k')) === 1, 'it listens')
    await theirs.release(grant, 0)
    await until(() => seen.isAwake, 'it is awake')
    await ours.close()
    expect(subscriber.isOpen).toBe(true)
    expect(await subscriber.ping()).toBeTruthy()
  })

  it('after the close comes only with the abort, so that nobody asks without a pause', async () => {
    const ours = await open()
    const theirs = await open('ioredis 6', { subscriber: false })
    await contended(ours, theirs)
    const before = sleeper(ours, 'k')
    await until(async () => (await subscribers('lock:k')) === 1, 'it listens')
    await ours.close()
    await until(() => before.isAwake, 'those who slept are awake')
    await until(async () => (await subscribers('lock:k')) === 0, 'the connection is gone')
    const after = sleeper(ours, 'k')
    await sleep(100)
    expect(after.isAwake).toBe(false)
    after.abort()
    await until(() => after.isAwake, 'it settled')
  })
})

/** What is answered with the first thing that was sent: before, and not after, the answer to a PING behind it. */
async function inOneTrip<T>(client: Redis, asked: Promise<T>): Promise<T> {
  let isAnswered = false
  const end = (): void => {
    isAnswered = true
  }
  asked.then(end, end)
  await client.ping()
  // Both answers may come in one piece, and the PING's is handed on with fewer steps.
  await turn()
  expect(isAnswered).toBe(true)
  return asked
}

describe('asking once', () => {
  // B064: a try without waiting went through the lock of the subscriptions, and waited there.
  it('is one round trip, while 500 contenders subscribe and sleep', async () => {
    const proxy = await startProxy(server.port)
    ends.push(() => proxy.close())
    const { client, end } = await openClient('ioredis 6', server.port)
    const subscriber = new Redis({ port: proxy.port })
    subscriber.on('error', () => undefined)
    ends.push(() => subscriber.disconnect(), end)
    const ours = redisBackendWith(systemSeams, client, { subscriber })
    ends.push(() => ours.close())
    const theirs = await open('ioredis 6', { subscriber: false })
    await until(() => subscriber.status === 'ready', 'the subscriber is connected')
    // Nothing that is subscribed is confirmed.
    proxy.drop('toClient')
    const held = await contended(ours, theirs)
    const sleepers: Sleeper[] = []
    for (let index = 0; index < 500; index++)
      sleepers.push(sleeper(ours, index % 2 ? 'k' : `k${index}`))
    // The server has met every script.
    await ours.release(granted(await ours.tryAcquire(request('first'))), 0)
    for (let index = 0; index < 50; index++) {
      const name = `free${index}`
      expect((await inOneTrip(client as Redis, ours.tryAcquire(request('k')))).kind).toBe('held')
      const grant = granted(await inOneTrip(client as Redis, ours.tryAcquire(request(name))))
      await inOneTrip(client as Redis, ours.release(grant, 0))
    }
    await theirs.release(held, 0)
  })
})
