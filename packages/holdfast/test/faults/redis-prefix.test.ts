import type { Redis } from 'ioredis'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { type RedisServer, startRedis } from '../../../cli/src/lab/servers/index.ts'
import { redisBackendWith } from '../../src/backends/redis/redis-backend.ts'
import type { Backend } from '../../src/core/backend.ts'
import { systemSeams } from '../../src/core/seams.ts'
import type { RedisOptions } from '../../src/redis.ts'
import { acquired, request } from '../../src/testkit/backend-harness.ts'
import { type ClientName, openClient, openInspector, until } from '../support/redis.ts'

let server: RedisServer
let redis: Redis
const ends: (() => unknown)[] = []

beforeAll(async () => {
  server = await startRedis()
  redis = await openInspector(server.port)
  // Docs: the rights that locks need, and no others.
  const rights = ['resetkeys', '~app1:*', 'resetchannels', '&app1:*', '+@all', '-@dangerous']
  await redis.call('ACL', 'SETUSER', 'app', 'on', '>geheim', ...rights)
})

afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end()
  await redis.flushall()
})

afterAll(async () => {
  redis.disconnect()
  await server.stop()
})

/** Who puts `app1:` before the keys: the backend, the client, or each a part. */
const WAYS: readonly (readonly [string, ClientName, string, RedisOptions])[] = [
  ['the backend', 'ioredis 5', '', { keyPrefix: 'app1:lock:' }],
  ['the backend', 'ioredis 6', '', { keyPrefix: 'app1:lock:' }],
  ['the backend', 'node-redis 5', '', { keyPrefix: 'app1:lock:' }],
  ['the backend', 'node-redis 6', '', { keyPrefix: 'app1:lock:' }],
  ['the client', 'ioredis 5', 'app1:', { keyPrefix: 'lock:' }],
  ['the client', 'ioredis 6', 'app1:', {}],
  ['the client', 'node-redis 6', 'app1:', {}],
  ['the client alone', 'ioredis 6', 'app1:lock:', { keyPrefix: '' }],
]

const LONG_MS = 60_000

describe('a prefix', () => {
  // B061: acquire worked and release failed without rights, or the locks of two environments mixed,
  // because helper keys and channels had no prefix, or had it twice.
  it.each(WAYS)('of %s, with %s, stands before every key and channel once', async (...way) => {
    const [, name, clientPrefix, options] = way
    const ours = await open(name, clientPrefix, options)
    const theirs = await open(name, clientPrefix, options)
    const monitor = await redis.duplicate().monitor()
    ends.push(() => monitor.disconnect())
    const commands: string[][] = []
    monitor.on('monitor', (_time: string, args: string[]) => commands.push(args))
    await everything(ours, theirs)
    await redis.ping('end')
    await until(() => commands.some((args) => args[1] === 'end'), 'all commands were seen')
    const touched = commands.flatMap(keysOf)
    expect(touched.length).toBeGreaterThan(50)
    for (const key of touched) {
      expect(key).toMatch(/^app1:lock:/)
      expect(key.indexOf('app1:', 1)).toBe(-1)
      expect(key.indexOf('lock:', 6)).toBe(-1)
    }
    const kinds = new Set(touched.map((key) => /#hf:(\w+):/.exec(key)?.[1] ?? 'lock'))
    expect([...kinds].sort()).toEqual(['cancel', 'lock', 'token', 'want'])
    expect(commands.some((args) => args[0]?.toLowerCase() === 'publish')).toBe(true)
  })

  it('keeps two environments on one server apart', async () => {
    const one = await open('ioredis 6', 'app1:', { keyPrefix: 'a:' })
    const two = await open('ioredis 6', 'app1:', { keyPrefix: 'b:' })
    const first = await acquired(one, 'k')
    const second = await acquired(two, 'k')
    expect(first.source).not.toBe(second.source)
    const names: string[] = []
    for await (const { lockName } of one.list('', 10)) names.push(lockName)
    expect(names).toEqual(['k'])
    expect(await one.release(second, 0)).toBe('not-held')
    expect(await two.release(second, 0)).toBe('released')
    expect((await one.inspect('k'))?.fencingToken).toBe(first.fencingToken)
  })

  it('and the id of the source tell the tokens of two stores apart', async () => {
    const plain = await open('ioredis 6', '', { keyPrefix: 'app1:' })
    const moved = await open('ioredis 6', '', { keyPrefix: 'app1:', sourceId: 'eu-2' })
    const grant = await acquired(plain, 'k')
    expect(grant.source).toBe('redis:app1:')
    await plain.release(grant, 0)
    expect((await acquired(moved, 'k')).source).toBe('redis:app1:eu-2')
  })
})

async function open(name: ClientName, keyPrefix: string, options: RedisOptions): Promise<Backend> {
  const prefixed = keyPrefix === '' ? {} : { keyPrefix }
  const rights = { username: 'app', password: 'geheim' }
  const { client, end } = await openClient(name, server.port, { ...rights, ...prefixed })
  const backend = redisBackendWith(systemSeams, client, options)
  ends.push(end, () => backend.close())
  return backend
}

/** Each operation, contended where it can be. */
async function everything(ours: Backend, theirs: Backend): Promise<void> {
  const warnings: unknown[] = []
  ours.warn = (warning) => warnings.push(warning)
  for (const lockName of ['a', 'b']) {
    const grant = await acquired(ours, lockName)
    expect((await theirs.tryAcquire(request(lockName, { waits: true }))).kind).toBe('held')
    const controller = new AbortController()
    const woken = theirs.wakeUp?.(lockName, controller.signal)
    await until(async () => {
      const channels = (await redis.pubsub('CHANNELS')) as string[]
      return channels.some((channel) => channel.endsWith(lockName))
    }, 'it listens')
    expect((await ours.renew(grant, LONG_MS)).kind).toBe('renewed')
    expect(await ours.proclaim(grant, 'v')).toBe('proclaimed')
    await woken
    expect((await theirs.tryAcquire(request(lockName, { waits: true }))).kind).toBe('held')
    const slept = theirs.wakeUp?.(lockName, controller.signal)
    expect(await ours.release(grant, 0)).toBe('released')
    await slept
    const next = await acquired(theirs, lockName)
    const passed = await theirs.handOver?.(next, request(lockName), true)
    if (passed?.kind !== 'handed-over') throw new Error('not handed over')
    const { fencingToken } = passed.grant
    const taken = await ours.revoke(request(lockName), { fencingToken, reason: 'x' })
    if (!taken) throw new Error('not revoked')
    expect(await ours.inspect(lockName)).toMatchObject({ fencingToken: taken.fencingToken })
    const names: string[] = []
    for await (const info of ours.list('', 10)) names.push(info.lockName)
    expect(names).toEqual([lockName])
    expect(await ours.release(taken, 30)).toBe('released')
    await ours.cancel(lockName, request(lockName).owner)
    await ours.raise(lockName, 5n)
    await until(async () => (await ours.inspect(lockName)) === null, 'it is free')
    const foreign = `app1:lock:${lockName}`
    await until(async () => (await redis.exists(foreign)) === 0, 'the rest is over')
    await redis.set(foreign, 'their', 'PX', 5000)
    const over = await ours.revoke(request(lockName), { foreignOwner: 'their', reason: 'x' })
    if (!over) throw new Error('not revoked')
    expect(await ours.release(over, 0)).toBe('released')
  }
}

/** The keys and channels of a command as the server got it, our own scripts' calls included. */
function keysOf([command = '', ...args]: string[]): string[] {
  switch (command.toLowerCase()) {
    case 'evalsha':
    case 'eval':
      return args.slice(2, 2 + Number(args[1]))
    case 'mget':
    case 'del':
    case 'subscribe':
    case 'unsubscribe':
      return args
    case 'scan':
      return [args[2] ?? '']
    case 'set':
    case 'getset':
    case 'get':
    case 'incr':
    case 'pttl':
    case 'pexpire':
    case 'publish':
    case 'type':
      return args.slice(0, 1)
    default:
      return []
  }
}
