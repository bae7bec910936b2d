import { setTimeout as sleep } from 'node:timers/promises'
import { inspect } from 'node:util'
import type { Redis } from 'ioredis'
import { afterEach, describe, expect, it } from 'vitest'
import { type RedisServer, startRedis } from '../../../cli/src/lab/servers/index.ts'
import { redisBackendWith } from '../../src/backends/redis/redis-backend.ts'
import type { Backend } from '../../src/core/backend.ts'
import type { UnavailableReason } from '../../src/core/errors.ts'
import type { Warning } from '../../src/core/events.ts'
import { systemSeams } from '../../src/core/seams.ts'
import { acquired, request } from '../../src/testkit/backend-harness.ts'
import {
  CLIENT_NAMES,
  type ClientName,
  type ClientOptions,
  keysWithoutTtl,
  openClient,
  openInspector,
  until,
} from '../support/redis.ts'

const LONG_MS = 60_000
const ends: (() => unknown)[] = []

afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end()
})

interface World {
  readonly server: RedisServer
  readonly redis: Redis
  readonly backend: Backend
}

async function open(
  args: readonly string[] = [],
  name: ClientName = 'ioredis 6',
  options: ClientOptions = {},
): Promise<World> {
  const server = await startRedis({ args })
  ends.push(() => server.stop())
  const redis = await openInspector(server.port)
  ends.push(() => redis.disconnect())
  const { client, end } = await openClient(name, server.port, options)
  ends.push(end)
  const backend = redisBackendWith(systemSeams, client, { subscriber: false })
  return { server, redis, backend }
}

function unavailable(why: UnavailableReason): object {
  return { code: 'BACKEND_UNAVAILABLE', why, cause: expect.any(Error) }
}

describe('a server without memory left', () => {
  // B051: out of memory looked like contention on acquire; on release the lock stayed, unnoticed.
  it('refuses acquires by name, and lets every lock go', async () => {
    const { redis, backend } = await open()
    const held = await acquired(backend, 'released')
    const resting = await acquired(backend, 'resting')
    const cancelled = await acquired(backend, 'cancelled')
    const passed = await acquired(backend, 'passed')
    const revoked = await acquired(backend, 'revoked')
    const renewed = await acquired(backend, 'renewed', { ttlMs: 5000 })
    await redis.config('SET', 'maxmemory', '1')
    await expect(backend.tryAcquire(request('new'))).rejects.toMatchObject(
      unavailable('out-of-memory'),
    )
    await expect(backend.proclaim(held, 'x')).rejects.toMatchObject(unavailable('out-of-memory'))
    await expect(backend.raise('x', 1n)).rejects.toMatchObject(unavailable('out-of-memory'))
    // Busy is still busy, with or without a mark.
    expect((await backend.tryAcquire(request('released', { waits: true }))).kind).toBe('held')

    expect(await backend.renew(renewed, LONG_MS)).toMatchObject({ kind: 'renewed' })
    expect(await redis.pttl('lock:renewed')).toBeGreaterThan(5000)
    expect(await backend.release(held, 0)).toBe('released')
    expect(await backend.release(resting, 30_000)).toBe('released')
    await backend.cancel('cancelled', cancelled.owner)
    expect(await redis.exists('lock:released', 'lock:cancelled')).toBe(0)
    expect(await redis.get('lock:resting')).toMatch(/^hf1:-{22}:/)
    expect(await redis.exists(`lock:#hf:cancel:${cancelled.owner}`)).toBe(1)
    const next = await backend.handOver?.(passed, request('passed'), true)
    expect(next?.kind).toBe('handed-over')
    const { fencingToken } = revoked
    const taken = await backend.revoke(request('revoked'), { fencingToken, reason: 'x' })
    expect(taken?.fencingToken).toBeGreaterThan(fencingToken)
    expect(await keysWithoutTtl(redis)).toEqual([])

    await redis.config('SET', 'maxmemory', '0')
    await acquired(backend, 'new')
  })

  // B058: a shared cache threw the lock of a living holder out, and two workers ran together.
  it('that evicts locks is warned about at the first use, once', async () => {
    const { redis, backend } = await open(['--maxmemory-policy', 'allkeys-random'])
    const warnings: Warning[] = []
    backend.warn = (warning) => warnings.push(warning)
    const grant = await acquired(backend, 'k')
    for (let count = 0; count < 5; count++) await acquired(backend, `k${count}`)
    await until(() => warnings.length > 0, 'a warning')
    await sleep(50)
    expect(warnings).toEqual([
      expect.objectContaining({
        code: 'eviction-policy',
        option: 'maxmemory-policy',
        value: 'allkeys-random',
        advice: expect.stringContaining('maxmemory-policy noeviction'),
      }),
    ])
    // And the holder learns of it at the next renewal; the next token is larger all the same.
    await redis.config('SET', 'maxmemory', '3mb')
    for (let index = 0; index < 200 && (await redis.exists('lock:k')) === 1; index++) {
      const pipeline = redis.pipeline()
      for (let key = 0; key < 500; key++) pipeline.set(`data:${index}:${key}`, 'x'.repeat(200))
      await pipeline.exec()
    }
    expect(await redis.exists('lock:k')).toBe(0)
    expect(await backend.renew(grant, LONG_MS)).toEqual({ kind: 'lost', reason: 'expired' })
    expect((await acquired(backend, 'k')).fencingToken).toBeGreaterThan(grant.fencingToken)
  })

  it('that keeps what it has is not warned about', async () => {
    const { backend } = await open()
    const warnings: Warning[] = []
    backend.warn = (warning) => warnings.push(warning)
    await acquired(backend, 'k')
    await acquired(backend, 'l')
    await sleep(50)
    expect(warnings).toEqual([])
  })
})

describe('a server that takes no writes', () => {
  // B057: after a failover every acquire failed with an error that nobody had a name for.
  it('because it is a replica says so', async () => {
    // A client of ioredis would look for the primary: see redis-read-only.test.ts.
    const { redis, backend } = await open([], 'node-redis 6')
    const grant = await acquired(backend, 'k')
    await redis.call('REPLICAOF', '127.0.0.1', '1')
    for (const ask of writes(backend, grant)) {
      await expect(ask()).rejects.toMatchObject(unavailable('read-only'))
    }
    expect(await backend.inspect('k')).toMatchObject({ fencingToken: grant.fencingToken })
    await redis.config('SET', 'replica-serve-stale-data', 'no')
    await expect(backend.inspect('k')).rejects.toMatchObject(unavailable('down'))
    await redis.call('REPLICAOF', 'NO', 'ONE')
    expect(await backend.release(grant, 0)).toBe('released')
  })

  it('because too few replicas are attached says so', async () => {
    const { redis, backend } = await open()
    const grant = await acquired(backend, 'k')
    await redis.config('SET', 'min-replicas-to-write', '1')
    for (const ask of writes(backend, grant)) {
      await expect(ask()).rejects.toMatchObject(unavailable('read-only'))
    }
    await redis.config('SET', 'min-replicas-to-write', '0')
    expect((await backend.renew(grant, LONG_MS)).kind).toBe('renewed')
  })

  it('because it cannot save says so, and takes the release afterwards', async () => {
    const { server, redis, backend } = await open()
    const grant = await acquired(backend, 'k')
    // A folder in the place of the file makes every snapshot fail, whoever runs the server.
    const { mkdirSync, rmdirSync } = await import('node:fs')
    const inTheWay = `${server.folder}/dump.rdb`
    mkdirSync(inTheWay)
    ends.push(() => rmdirSync(inTheWay))
    await redis.config('SET', 'save', '1 1')
    await redis.set('x', '1')
    await until(
      async () => /rdb_last_bgsave_status:err/.test(await redis.info('persistence')),
      'a snapshot has failed',
      30_000,
    )
    for (const ask of writes(backend, grant)) {
      await expect(ask()).rejects.toMatchObject(unavailable('read-only'))
    }
    await redis.config('SET', 'stop-writes-on-bgsave-error', 'no')
    expect(await backend.release(grant, 0)).toBe('released')
  })
})

function writes(
  backend: Backend,
  grant: Awaited<ReturnType<typeof acquired>>,
): (() => Promise<unknown>)[] {
  return [
    () => backend.tryAcquire(request('new')),
    () => backend.renew(grant, 2 * LONG_MS),
    () => backend.release(grant, 0),
    () => backend.release(grant, 1000),
    () => backend.cancel('k', grant.owner),
    () => backend.proclaim(grant, 'x'),
    async () => backend.handOver?.(grant, request('k'), true),
    () => backend.revoke(request('k'), { fencingToken: grant.fencingToken, reason: 'x' }),
    () => backend.raise('k', 1n << 62n),
  ]
}

describe('a server that is not ready', () => {
  it('because it loads its data says so', async () => {
    const { server, redis, backend } = await open(['--enable-debug-command', 'yes'])
    await redis.call('DEBUG', 'POPULATE', '200000')
    await redis.config('SET', 'key-load-delay', '50')
    await redis.config('SET', 'loading-process-events-interval-bytes', '1024')
    await acquired(backend, 'warm')
    const reloading = redis.call('DEBUG', 'RELOAD').catch(() => undefined)
    await until(async () => {
      const error: unknown = await backend.tryAcquire(request('k')).catch((cause) => cause)
      return (error as { why?: string }).why === 'loading'
    }, 'the server says that it is loading')
    await expect(backend.tryAcquire(request('k'))).rejects.toMatchObject(unavailable('loading'))
    redis.disconnect()
    await reloading
    await server.kill()
  })

  it('because it is busy with somebody’s script says so', async () => {
    const { server, redis, backend } = await open()
    await acquired(backend, 'warm')
    await redis.config('SET', 'busy-reply-threshold', '20')
    const endless = 'while true do end'
    const running = redis.eval(endless, 0).catch(() => undefined)
    await until(async () => {
      const error: unknown = await backend.tryAcquire(request('k')).catch((cause) => cause)
      return (error as { why?: string }).why === 'down'
    }, 'the server says that it is busy')
    redis.disconnect()
    await running
    await server.kill()
  })
})

// B053: where a provider has switched commands off nothing worked, and nobody said which were missing.
describe.each(CLIENT_NAMES)('%s: a server without some commands', (name) => {
  it('needs no HELLO by RESP 2', async () => {
    // Which version 6 of node-redis must be told, and the others speak by themselves.
    const options: ClientOptions = name === 'node-redis 6' ? { RESP: 2 } : {}
    const { redis, backend } = await open(['--rename-command', 'HELLO', ''], name, options)
    await expect(redis.call('HELLO')).rejects.toThrow(/unknown command/)
    const grant = await acquired(backend, 'k')
    expect((await backend.renew(grant, LONG_MS)).kind).toBe('renewed')
    expect(await backend.release(grant, 0)).toBe('released')
  })

  it('says that scripts are what it lacks', async () => {
    const without = ['EVAL', 'EVALSHA'].flatMap((command) => ['--rename-command', command, ''])
    const { redis, backend } = await open(without, name)
    const failure: unknown = await backend.tryAcquire(request('k')).catch((error) => error)
    expect(failure).toMatchObject(unavailable('no-permission'))
    expect((failure as Error).message).toContain('EVAL and EVALSHA are switched off')
    expect(await redis.exists('lock:k')).toBe(0)
  })
})

describe.each(CLIENT_NAMES)('%s: rights', (name) => {
  it('that are missing are named, before anything was done', async () => {
    const { server, redis } = await open()
    const users: readonly (readonly [string, ...string[]])[] = [
      ['noeval', '~*', '&*', '+@all', '-@scripting'],
      ['nokeys', '~other:*', '&*', '+@all'],
      ['noset', '~*', '&*', '+@all', '-set'],
    ]
    for (const [user, ...rules] of users) {
      await redis.call('ACL', 'SETUSER', user, 'on', '>geheim', ...rules)
      const { client, end } = await openClient(name, server.port, {
        username: user,
        password: 'geheim',
      })
      ends.push(end)
      const backend = redisBackendWith(systemSeams, client, { subscriber: false })
      const asked = request('k')
      const failure: unknown = await backend.tryAcquire(asked).catch((error) => error)
      expect(failure).toMatchObject(unavailable('no-permission'))
      // A client keeps the command with its arguments in its error, which is our error's cause.
      const logged = inspect(failure, { depth: 9 })
      expect(logged).not.toContain('geheim')
      expect(logged).not.toContain(asked.owner)
      expect(await redis.exists('lock:k')).toBe(0)
    }
  })

  // B050: a wrong password arrived as a lost quorum.
  it('that were taken away under way are named', async () => {
    const { server, redis } = await open()
    await redis.call('ACL', 'SETUSER', 'app', 'on', '>geheim', '~*', '&*', '+@all')
    const options = { username: 'app', password: 'geheim' }
    const { client, end } = await openClient(name, server.port, options)
    ends.push(end)
    const backend = redisBackendWith(systemSeams, client, { subscriber: false })
    const grant = await acquired(backend, 'k')
    await redis.call('ACL', 'SETUSER', 'app', '-@all')
    await expect(backend.renew(grant, LONG_MS)).rejects.toMatchObject(unavailable('no-permission'))
    await redis.call('ACL', 'SETUSER', 'app', '+@all', '-info', '-publish', 'resetchannels')
    // Without rights on channels and INFO everything goes on, but for wake-ups and warnings.
    const warnings: Warning[] = []
    backend.warn = (warning) => warnings.push(warning)
    expect((await backend.renew(grant, LONG_MS)).kind).toBe('renewed')
    expect((await backend.tryAcquire(request('k', { waits: true }))).kind).toBe('held')
    expect(await backend.release(grant, 0)).toBe('released')
    const next = await acquired(backend, 'k')
    expect((await backend.tryAcquire(request('k', { waits: true }))).kind).toBe('held')
    await backend.cancel('k', next.owner)
    expect(await redis.exists('lock:k')).toBe(0)
    await sleep(50)
    expect(warnings.filter(({ code }) => code === 'eviction-policy')).toEqual([])
  })
})
