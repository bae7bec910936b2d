import { setTimeout as sleep } from 'node:timers/promises'
import { Redis as Io } from 'ioredis'
import { Redis as Io5 } from 'ioredis5'
import { createClient, RESP_TYPES } from 'redis'
import { describe, expect, it } from 'vitest'
import { startRedis } from '../../../cli/src/lab/servers/index.ts'
import type { Backend } from '../../src/core/backend.ts'
import type { RedisClient } from '../../src/redis.ts'
import { acquired, granted, request } from '../../src/testkit/backend-harness.ts'
import { CLIENT_NAMES, until } from '../support/redis.ts'
import { backendOf, standOnRedis } from '../support/redis-stand.ts'

const stand = standOnRedis()
const LONG_MS = 60_000

describe.each(CLIENT_NAMES)('%s', (name) => {
  it('takes, renews, hands over, shows, revokes and frees a lock', async () => {
    const backend = await stand.backend({ name })
    const holder = { host: 'h', pid: 1, label: '☃' }
    const grant = await acquired(backend, 'k', { holder })
    expect(await backend.tryAcquire(request('k', { waits: true }))).toMatchObject({ holder })
    expect(await backend.renew(grant, LONG_MS)).toMatchObject({ kind: 'renewed' })
    expect(await backend.proclaim(grant, 'v')).toBe('proclaimed')
    const passed = await backend.handOver?.(grant, request('k', { holder }), true)
    if (passed?.kind !== 'handed-over') throw new Error('not handed over')
    const { fencingToken } = passed.grant
    const names: string[] = []
    for await (const { lockName } of backend.list('', 10)) names.push(lockName)
    expect(names).toEqual(['k'])
    const taken = await backend.revoke(request('k'), { fencingToken, reason: 'x' })
    if (!taken) throw new Error('not revoked')
    expect(taken.fencingToken).toBeGreaterThan(fencingToken)
    expect(await backend.inspect('k')).toMatchObject({ fencingToken: taken.fencingToken })
    expect(await backend.release(taken, 50)).toBe('released')
    await backend.raise('k', 2n ** 60n)
    await until(async () => (await stand.redis.exists('lock:k')) === 0, 'the rest is over')
    expect((await acquired(backend, 'k')).fencingToken).toBe(2n ** 60n + 1n)
  })

  // B055: after a restart, a failover or SCRIPT FLUSH every call failed until the program was
  // restarted, while its health checks stayed green.
  it('goes on after SCRIPT FLUSH and a restart, at each step, with one EVAL each', async () => {
    const backend = await stand.backend({ name })
    const steps = async (): Promise<void> => {
      const grant = await acquired(backend, 'k')
      await stand.redis.script('FLUSH')
      expect((await backend.renew(grant, LONG_MS)).kind).toBe('renewed')
      await stand.redis.script('FLUSH')
      expect((await backend.tryAcquire(request('k'))).kind).toBe('held')
      await stand.redis.script('FLUSH')
      expect(await backend.inspect('k')).not.toBeNull()
      await stand.redis.script('FLUSH')
      expect(await backend.release(grant, 0)).toBe('released')
      await stand.redis.script('FLUSH')
    }
    await steps()
    await stand.redis.call('CONFIG', 'RESETSTAT')
    await steps()
    expect(await callsOf('eval')).toBe(5)
    expect(await callsOf('evalsha')).toBe(5)
    await acquired(backend, 'other')
    const before = await callsOf('eval')
    for (let count = 0; count < 10; count++) await acquired(backend, `n${count}`)
    expect(await callsOf('eval')).toBe(before)
  })

  // B054: callers ran without the lock on any error, also where it may have been taken.
  it('says "unknown" for a request under way when the server dies', async () => {
    const own = await startRedis()
    try {
      const backend = await stand.backend({ name, port: own.port })
      await acquired(backend, 'warm')
      own.freeze()
      const asking = backend.tryAcquire(request('k'))
      const failure = asking.catch((error: unknown) => error)
      await sleep(100)
      await own.kill()
      expect(await failure).toMatchObject({ code: 'OUTCOME_UNKNOWN', cause: expect.any(Error) })
    } finally {
      await own.stop()
    }
  })

  it('says "unknown" for a request under way when its own connection breaks', async () => {
    const backend = await stand.backend({ name, port: stand.proxy.port })
    await acquired(backend, 'warm')
    stand.proxy.drop('toClient')
    const failure = backend.tryAcquire(request('k')).catch((error: unknown) => error)
    await until(async () => (await stand.redis.exists('lock:k')) === 1, 'it was executed')
    stand.proxy.reset()
    expect(await failure).toMatchObject({ code: 'OUTCOME_UNKNOWN' })
  })

  it('says "down, not applied" while the server is down, and goes on when it is back', async () => {
    const own = await startRedis()
    try {
      const backend = await stand.backend({ name, port: own.port })
      await acquired(backend, 'warm')
      await own.kill()
      const down = { code: 'BACKEND_UNAVAILABLE', why: 'down' }
      // The client learns of the end within a moment; until then a request may be under way.
      await until(async () => {
        const error: unknown = await backend.tryAcquire(request('k')).catch((cause) => cause)
        return (error as { code?: string }).code === 'BACKEND_UNAVAILABLE'
      }, 'the client knows that the server is down')
      await expect(backend.tryAcquire(request('k'))).rejects.toMatchObject(down)
      await expect(backend.inspect('k')).rejects.toMatchObject(down)
      await expect(backend.cancel('k', request('k').owner)).rejects.toMatchObject(down)
      await own.restart()
      await until(
        () =>
          backend.tryAcquire(request('back')).then(
            () => true,
            () => false,
          ),
        'the client is connected again',
      )
    } finally {
      await own.stop()
    }
  })

  it('says "down, not applied" once it was closed by its user', async () => {
    const { client, end } = await stand.open({ name })
    const backend = backendOf(client)
    await acquired(backend, 'warm')
    end()
    await sleep(20)
    await expect(backend.tryAcquire(request('k'))).rejects.toMatchObject({
      code: 'BACKEND_UNAVAILABLE',
      why: 'down',
    })
  })

  it('lets a bug be a bug: no retry, no other name', async () => {
    const { client } = await stand.open({ name })
    let calls = 0
    const broken = Object.create(client as object) as Record<string, unknown>
    for (const method of ['evalsha', 'evalSha']) {
      if (!(method in client)) continue
      broken[method] = async () => {
        calls += 1
        throw new TypeError('x is not a function')
      }
    }
    const asking = backendOf(broken as unknown as RedisClient).tryAcquire(request('k'))
    await expect(asking).rejects.toThrow(new TypeError('x is not a function'))
    expect(calls).toBe(1)
    expect(await backendOf(client).inspect('k')).toBeNull()
  })
})

describe('clients that queue and resend', () => {
  // The request was executed, the connection broke, ioredis sent it again: it is granted once, and
  // counts from before the first time it left.
  it.each(['ioredis 5', 'ioredis 6'] as const)(
    '%s: a resent acquire is one grant',
    async (name) => {
      const client = { queues: true }
      const backend = await stand.backend({ name, port: stand.proxy.port, client })
      await acquired(backend, 'warm')
      stand.proxy.drop('toClient')
      const asked = request('k', { ttlMs: 30_000 })
      const asking = backend.tryAcquire(asked)
      await until(async () => (await stand.redis.exists('lock:k')) === 1, 'it was executed')
      const first = await stand.redis.get('lock:k')
      stand.proxy.reset()
      stand.proxy.heal()
      const grant = granted(await asking)
      expect(grant.owner).toBe(asked.owner)
      expect(grant.ttlMs).toBeLessThanOrEqual(30_000)
      expect(await stand.redis.get('lock:k')).toBe(first)
      expect((await backend.inspect('k'))?.fencingToken).toBe(grant.fencingToken)
      expect(await backend.release(grant, 0)).toBe('released')
    },
  )

  // Why maxRetriesPerRequest is warned about: without resending, and with retries left, ioredis
  // never settles a request that was under way. The engine has its own time-out for that.
  it('ioredis 6 without resending never answers what was under way', async () => {
    const client = new Io({ port: stand.proxy.port, autoResendUnfulfilledCommands: false })
    client.on('error', () => undefined)
    stand.ends.push(() => client.disconnect())
    const backend = backendOf(client)
    await acquired(backend, 'warm')
    stand.proxy.drop('toClient')
    let isSettled = false
    const note = (): void => {
      isSettled = true
    }
    backend.tryAcquire(request('k')).then(note, note)
    await until(async () => (await stand.redis.exists('lock:k')) === 1, 'it was executed')
    const reconnected = new Promise((resolve) => client.once('ready', resolve))
    stand.proxy.reset()
    stand.proxy.heal()
    await reconnected
    await acquired(backend, 'after the reconnect')
    await sleep(300)
    expect(isSettled).toBe(false)
  })
})

describe('replies', () => {
  it('may be Buffers, in RESP 2 and 3', async () => {
    for (const RESP of [2, 3] as const) {
      const client = createClient({ RESP, socket: { host: '127.0.0.1', port: stand.server.port } })
      client.on('error', () => undefined)
      await client.connect()
      stand.ends.push(() => client.destroy())
      const typeMapping = { [RESP_TYPES.BLOB_STRING]: Buffer, [RESP_TYPES.SIMPLE_STRING]: Buffer }
      const buffers = client.withTypeMapping(typeMapping)
      expect(await buffers.eval('return KEYS[1]', { keys: ['k'], arguments: [] })).toBeInstanceOf(
        Buffer,
      )
      await useReplies(backendOf(buffers), `k${RESP}`)
    }
  })

  // The token of a grant is an integer, and so are answers like "released".
  it('may have text for numbers, in RESP 2 and 3', async () => {
    const { port } = stand.server
    for (const RESP of [2, 3] as const) {
      const client = createClient({ RESP, socket: { host: '127.0.0.1', port } })
      client.on('error', () => undefined)
      await client.connect()
      stand.ends.push(() => client.destroy())
      const texts = client.withTypeMapping({ [RESP_TYPES.NUMBER]: String })
      expect(await texts.eval('return 1', { keys: [], arguments: [] })).toBe('1')
      await useReplies(backendOf(texts), `node${RESP}`)
    }
    const clients = [
      new Io({ port, stringNumbers: true, protocol: 2 }),
      new Io({ port, stringNumbers: true, protocol: 3 }),
      new Io5({ port, stringNumbers: true }),
    ]
    for (const [index, client] of clients.entries()) {
      client.on('error', () => undefined)
      stand.ends.push(() => client.disconnect())
      expect(await client.eval('return 1', 0)).toBe('1')
      await useReplies(backendOf(client), `io${index}`)
    }
  })
})

/** Each kind of reply: a token, texts in a list, a number, a word. */
async function useReplies(backend: Backend, lockName: string): Promise<void> {
  const holder = { host: 'h', pid: 1, label: '☃' }
  const grant = await acquired(backend, lockName, { holder })
  const info = await backend.inspect(lockName)
  expect(info).toMatchObject({ holder, fencingToken: grant.fencingToken })
  expect(await backend.renew(grant, LONG_MS)).toMatchObject({ kind: 'renewed' })
  const refused = await backend.tryAcquire(request(lockName, { waits: true }))
  expect(refused).toMatchObject({ kind: 'held', holder, fencingToken: grant.fencingToken })
  const passed = await backend.handOver?.(grant, request(lockName), true)
  if (passed?.kind !== 'handed-over') throw new Error('not handed over')
  expect(passed.wanted).toBe(true)
  expect(passed.grant.fencingToken).toBeGreaterThan(grant.fencingToken)
  expect(await backend.release(grant, 0)).toBe('not-held')
  expect(await backend.release(passed.grant, 0)).toBe('released')
  expect(await backend.renew(passed.grant, LONG_MS)).toEqual({ kind: 'lost', reason: 'expired' })
}

async function callsOf(command: string): Promise<number> {
  const info = await stand.redis.info('commandstats')
  return Number(new RegExp(`cmdstat_${command}:calls=(\\d+)`).exec(info)?.[1] ?? 0)
}
