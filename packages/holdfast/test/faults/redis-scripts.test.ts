import type { Redis } from 'ioredis'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { type RedisServer, startRedis } from '../../../cli/src/lab/servers/index.ts'
import { redisBackendWith } from '../../src/backends/redis/redis-backend.ts'
import type { Backend } from '../../src/core/backend.ts'
import { randomOwner } from '../../src/core/owner.ts'
import { systemSeams } from '../../src/core/seams.ts'
import { acquired, granted, request } from '../../src/testkit/backend-harness.ts'
import { keysWithoutTtl, type OpenClient, openClient, openInspector } from '../support/redis.ts'

let server: RedisServer
let redis: Redis
let opened: OpenClient
let backend: Backend
/** Another process: another waiter. */
let other: Backend

beforeAll(async () => {
  server = await startRedis()
  redis = await openInspector(server.port)
  opened = await openClient('ioredis 6', server.port)
  backend = redisBackendWith(systemSeams, opened.client, { subscriber: false })
  other = redisBackendWith(systemSeams, opened.client, { subscriber: false })
})

afterEach(async () => {
  // B017: a key without an end makes a name unavailable for ever.
  expect(await keysWithoutTtl(redis)).toEqual([])
  await redis.flushall()
})

afterAll(async () => {
  opened.end()
  redis.disconnect()
  await server.stop()
})

const LONG_MS = 60_000

describe('acquire', () => {
  it('writes the documented value, with the time of the server', async () => {
    const holder = { host: 'web-1', pid: 42, label: 'nightly', value: 'v' }
    const beforeMs = Date.now() - 1000
    const grant = await acquired(backend, 'k', { holder, lockDelayMs: 500 })
    const value = (await redis.get('lock:k')) ?? ''
    const token = grant.fencingToken.toString().padStart(19, '0')
    expect(value).toMatch(
      new RegExp(
        `^hf1:${grant.owner}:${token}:\\{"s":\\d{16},"d":500,"h":"web-1","p":42,"l":"nightly","v":"v"\\}$`,
      ),
    )
    const sinceAtMs = (await backend.inspect('k'))?.sinceAtMs ?? 0
    expect(sinceAtMs).toBeGreaterThan(beforeMs)
    expect(sinceAtMs).toBeLessThan(Date.now() + 1000)
    expect(await redis.pttl('lock:k')).toBeGreaterThan(LONG_MS - 10_000)
    expect(grant.source).toBe('redis:lock:')
  })

  it('leaves a mark only for who waits, and the mark ends by itself', async () => {
    await acquired(backend, 'k')
    await other.tryAcquire(request('k'))
    expect(await redis.exists('lock:#hf:want:k')).toBe(0)
    await other.tryAcquire(request('k', { waits: true }))
    expect(await redis.pttl('lock:#hf:want:k')).toBeGreaterThan(0)
    expect(await redis.pttl('lock:#hf:want:k')).toBeLessThanOrEqual(2000)
  })

  // B099: a repeat that draws a new token turns the holder's own writes stale. And a repeat counts
  // from what is left, or the holder believes in more life than the key has.
  it('repeats the grant of an owner that has the name, with what is left of its life', async () => {
    const asked = request('k', { ttlMs: LONG_MS })
    const first = granted(await backend.tryAcquire(asked))
    await redis.pexpire('lock:k', 5000)
    const again = granted(await other.tryAcquire(asked))
    expect(again.fencingToken).toBe(first.fencingToken)
    expect(again.ttlMs).toBeLessThanOrEqual(5000)
    expect(again.ttlMs).toBeGreaterThan(0)
    expect(await redis.pttl('lock:k')).toBeLessThanOrEqual(5000)
  })

  it('gives an own key that has lost its TTL a TTL again', async () => {
    const asked = request('k', { ttlMs: 5000 })
    await backend.tryAcquire(asked)
    await redis.persist('lock:k')
    expect(granted(await backend.tryAcquire(asked)).ttlMs).toBe(5000)
    expect(await redis.pttl('lock:k')).toBeGreaterThan(0)
  })
})

describe('renew', () => {
  it('never shortens, and gives a key that has lost its TTL one', async () => {
    const grant = await acquired(backend, 'k', { ttlMs: LONG_MS })
    expect((await backend.renew(grant, 1000)).kind).toBe('renewed')
    expect(await redis.pttl('lock:k')).toBeGreaterThan(LONG_MS - 10_000)
    await redis.persist('lock:k')
    expect(await backend.renew(grant, 4000)).toMatchObject({ kind: 'renewed', ttlMs: 4000 })
    expect(await redis.pttl('lock:k')).toBeGreaterThan(3000)
    expect((await backend.renew(grant, LONG_MS)).kind).toBe('renewed')
    expect(await redis.pttl('lock:k')).toBeGreaterThan(LONG_MS - 10_000)
  })

  // B015: an extension that sets the key hides that somebody else may have worked in between.
  it('of a key that is gone is lost, and the key stays gone', async () => {
    const grant = await acquired(backend, 'k')
    await redis.del('lock:k')
    expect(await backend.renew(grant, LONG_MS)).toEqual({ kind: 'lost', reason: 'expired' })
    expect(await redis.exists('lock:k')).toBe(0)
  })

  it('tells each way in which a lock was lost', async () => {
    const grant = await acquired(backend, 'k')
    const renewed = async (): Promise<unknown> => backend.renew(grant, LONG_MS)
    await redis.set('lock:k', 'of another program', 'PX', LONG_MS)
    expect(await renewed()).toEqual({ kind: 'lost', reason: 'superseded' })
    await redis.del('lock:k')
    await redis.rpush('lock:k', 'a list')
    expect(await renewed()).toEqual({ kind: 'lost', reason: 'superseded' })
    await redis.del('lock:k')
    const next = await acquired(other, 'k')
    expect(await renewed()).toEqual({ kind: 'lost', reason: 'superseded' })
    const { fencingToken } = next
    await backend.revoke(request('k'), { fencingToken, reason: 'x' })
    expect(await renewed()).toEqual({ kind: 'lost', reason: 'superseded' })
    expect(await other.renew(next, LONG_MS)).toEqual({ kind: 'lost', reason: 'revoked' })
  })
})

describe('release', () => {
  it('tells only who left a mark, and clears it', async () => {
    const heard: string[] = []
    const listener = redis.duplicate()
    listener.on('message', (channel) => heard.push(channel))
    await listener.subscribe('lock:k')
    await backend.release(await acquired(backend, 'k'), 0)
    const grant = await acquired(backend, 'k')
    await other.tryAcquire(request('k', { waits: true }))
    await backend.release(grant, 0)
    expect(await redis.exists('lock:#hf:want:k')).toBe(0)
    await redis.publish('lock:k', 'end')
    await expect.poll(() => heard.length).toBeGreaterThanOrEqual(2)
    expect(heard).toEqual(['lock:k', 'lock:k'])
    listener.disconnect()
  })

  // Whoever sleeps through the rest of a minimum hold must not be woken to be refused.
  it('that is early writes the released form and tells nobody', async () => {
    const heard: string[] = []
    const listener = redis.duplicate()
    listener.on('message', (_, message) => heard.push(message))
    await listener.subscribe('lock:k')
    const grant = await acquired(backend, 'k')
    await other.tryAcquire(request('k', { waits: true }))
    expect(await backend.release(grant, 1234.5)).toBe('released')
    const token = grant.fencingToken.toString().padStart(19, '0')
    expect(await redis.get('lock:k')).toBe(`hf1:${'-'.repeat(22)}:${token}:{}`)
    expect(await redis.pttl('lock:k')).toBeLessThanOrEqual(1235)
    await redis.publish('lock:k', 'end')
    await expect.poll(() => heard).toEqual(['end'])
    listener.disconnect()
  })
})

describe('hand-over', () => {
  it('answers a repeat with the grant of the first', async () => {
    const grant = await acquired(backend, 'k')
    const next = request('k', { ttlMs: LONG_MS })
    const first = await backend.handOver?.(grant, next, true)
    const again = await backend.handOver?.(grant, next, true)
    if (first?.kind !== 'handed-over' || again?.kind !== 'handed-over') throw new Error('not done')
    expect(again.grant.fencingToken).toBe(first.grant.fencingToken)
    expect(again.grant.ttlMs).toBeLessThanOrEqual(LONG_MS)
    expect(again.wanted).toBe(false)
  })

  it('counts its own mark as nobody foreign', async () => {
    const grant = await acquired(backend, 'k')
    const waiter = randomOwner()
    await backend.tryAcquire(request('k', { waits: true, waiter }))
    const own = await backend.handOver?.(grant, request('k', { waiter }), false)
    expect(own).toMatchObject({ kind: 'handed-over', wanted: false })
    await other.tryAcquire(request('k', { waits: true }))
    if (own?.kind !== 'handed-over') throw new Error('not handed over')
    const next = request('k', { waiter })
    expect(await backend.handOver?.(own.grant, next, false)).toEqual({ kind: 'freed' })
    expect(await redis.exists('lock:k', 'lock:#hf:want:k')).toBe(0)
  })

  it('to a cancelled owner frees the name and wakes who waits', async () => {
    const heard: string[] = []
    const listener = redis.duplicate()
    listener.on('message', (channel) => heard.push(channel))
    await listener.subscribe('lock:k')
    const grant = await acquired(backend, 'k')
    await other.tryAcquire(request('k', { waits: true }))
    const next = request('k')
    await other.cancel('k', next.owner)
    expect(await backend.handOver?.(grant, next, true)).toEqual({ kind: 'freed' })
    await expect.poll(() => heard).toEqual(['lock:k'])
    listener.disconnect()
  })
})

describe('cancel', () => {
  it('leaves a tombstone of twice the TTL, which later cancels do not shorten', async () => {
    const cancelled = async (ttlMs: number): Promise<() => Promise<number>> => {
      const asked = request('k', { ttlMs })
      const waiting = backend.tryAcquire(asked)
      await backend.cancel('k', asked.owner)
      await waiting
      return async () => {
        const lifeMs = await redis.pttl(`lock:#hf:cancel:${asked.owner}`)
        // Once more, by somebody who does not know the TTL any more.
        await other.cancel('k', asked.owner)
        return lifeMs
      }
    }
    const short = await cancelled(1000)
    const shortMs = await short()
    expect(shortMs).toBeGreaterThan(20_000)
    expect(shortMs).toBeLessThanOrEqual(30_000)
    expect(await short()).toBeGreaterThan(50_000)
    const long = await cancelled(600_000)
    for (const lifeMs of [await long(), await long()]) {
      expect(lifeMs).toBeGreaterThan(1_180_000)
      expect(lifeMs).toBeLessThanOrEqual(1_200_000)
    }
    const owner = randomOwner()
    await backend.cancel('k', owner)
    expect(await redis.pttl(`lock:#hf:cancel:${owner}`)).toBeGreaterThan(50_000)
  })

  // The acquire was executed, its cancel too, and then the first answer arrived: a grant that is
  // undone must not be used.
  it('that overtakes the answer makes it a refusal', async () => {
    for (let round = 0; round < 20; round++) {
      const asked = request(`k${round}`)
      const asking = backend.tryAcquire(asked)
      const cancelling = backend.cancel(asked.lockName, asked.owner)
      expect(await asking).toMatchObject({ kind: 'held', holder: null })
      await cancelling
    }
    await expect.poll(() => redis.keys('lock:k*')).toEqual([])
  })
})

describe('proclaim', () => {
  it('keeps the TTL and all else, whatever the value before was', async () => {
    const holder = { host: 'h', pid: 1, label: ',"v":"trap"', value: '\u0001\u0002' }
    const grant = await acquired(backend, 'k', { holder })
    for (const value of ['{"v":",\\"v\\":1"}', '\u0000', 'plain', '']) {
      expect(await backend.proclaim(grant, value)).toBe('proclaimed')
      const seen = await other.inspect('k')
      expect(seen?.holder).toEqual({ ...holder, value })
      expect(seen?.fencingToken).toBe(grant.fencingToken)
      expect(seen?.remainingMs).toBeGreaterThan(LONG_MS - 20_000)
    }
    expect((await backend.renew(grant, LONG_MS)).kind).toBe('renewed')
  })

  it('wakes those who watch the holder', async () => {
    const heard: string[] = []
    const listener = redis.duplicate()
    listener.on('message', (channel) => heard.push(channel))
    await listener.subscribe('lock:k')
    await backend.proclaim(await acquired(backend, 'k'), 'new')
    await expect.poll(() => heard).toEqual(['lock:k'])
    listener.disconnect()
  })
})

describe('revoke', () => {
  it('keeps the end of the entry, and says in it whom it replaced', async () => {
    const old = await acquired(backend, 'k', { ttlMs: LONG_MS, lockDelayMs: 20_000 })
    await redis.pexpire('lock:k', 50_000)
    const { fencingToken } = old
    const taken = await other.revoke(request('k'), { fencingToken, reason: 'x' })
    expect(taken?.ttlMs).toBeLessThanOrEqual(30_000)
    expect(taken?.ttlMs).toBeGreaterThan(20_000)
    expect(await redis.pttl('lock:k')).toBeLessThanOrEqual(50_000)
    const seen = fencingToken.toString().padStart(19, '0')
    expect(await redis.get('lock:k')).toContain(`,"r":"${seen}","d":20000,"h":"conformance"`)
    expect(await redis.pttl(`lock:#hf:cancel:${old.owner}`)).toBeGreaterThan(90_000)
  })

  it('of an entry that is all lock delay gives a grant that is nearly spent', async () => {
    const { fencingToken } = await acquired(backend, 'k', { ttlMs: 5000, lockDelayMs: 4000 })
    await redis.pexpire('lock:k', 3000)
    expect(await other.revoke(request('k'), { fencingToken, reason: 'x' })).toMatchObject({
      ttlMs: 1,
    })
  })

  it('answers a repeat with the grant of the first', async () => {
    const { fencingToken } = await acquired(backend, 'k', { lockDelayMs: 1000 })
    const asked = request('k')
    const first = await other.revoke(asked, { fencingToken, reason: 'x' })
    const again = await backend.revoke(asked, { fencingToken, reason: 'x' })
    expect(again?.fencingToken).toBe(first?.fencingToken)
    expect(again?.ttlMs).toBeLessThanOrEqual(first?.ttlMs ?? 0)
  })

  it('gives an entry that has lost its TTL that of the operator', async () => {
    const { fencingToken } = await acquired(backend, 'k')
    await redis.persist('lock:k')
    const asked = request('k', { ttlMs: 7000 })
    expect(await other.revoke(asked, { fencingToken, reason: 'x' })).toMatchObject({ ttlMs: 7000 })
    expect(await redis.pttl('lock:k')).toBeGreaterThan(0)
  })
})
