import type { Redis } from 'ioredis'
import { beforeEach, describe, expect, it } from 'vitest'
import { ACQUIRE_LUA } from '../../src/backends/redis/scripts/acquire.ts'
import type { Backend } from '../../src/core/backend.ts'
import { TOKEN_MAX } from '../../src/core/token.ts'
import { acquired, request } from '../../src/testkit/backend-harness.ts'
import { RedisKeys } from '../../src/wire/keys.ts'
import { allKeys } from '../support/redis.ts'
import { standOnRedis } from '../support/redis-stand.ts'

const stand = standOnRedis()
let redis: Redis
let backend: Backend

beforeEach(async () => {
  redis = stand.redis
  backend = await stand.backend()
})

const COUNTER = new RedisKeys('lock:', false).of('k')?.counter ?? ''

async function tokenOf(lockName: string): Promise<bigint> {
  const grant = await acquired(backend, lockName)
  expect(await backend.release(grant, 0)).toBe('released')
  return grant.fencingToken
}

async function microseconds(): Promise<bigint> {
  const [seconds = 0, rest = 0] = await redis.time()
  return BigInt(seconds) * 1_000_000n + BigInt(rest)
}

describe('a token', () => {
  it('is the time of the server where the counter is behind', async () => {
    const before = await microseconds()
    const token = await tokenOf('k')
    expect(token).toBeGreaterThanOrEqual(before)
    expect(token).toBeLessThanOrEqual(await microseconds())
    expect(await redis.get(COUNTER)).toBe(`${token}`)
    expect(await redis.pttl(COUNTER)).toBe(-1)
  })

  // The microseconds of a second begin with zeros for a tenth of it: without them tokens would fall
  // where the counter does not hold them up.
  it('rises by the clock alone, in every part of a second', async () => {
    let last = 0n
    const endMs = performance.now() + 1100
    let count = 0
    while (performance.now() < endMs && count < 20_000) {
      await redis.del(COUNTER)
      const token = await tokenOf('k')
      expect(token).toBeGreaterThan(last)
      last = token
      count += 1
    }
    expect(count).toBeGreaterThan(20)
  })

  // The accident: two grants in one microsecond draw the clock twice. It is held still inside a script
  // that runs the product's own text twice, because a real one seldom stands.
  it('is the next of the counter when the clock stands', async () => {
    const script = `
      local server = redis
      local redis = { pcall = server.pcall, call = function(command, ...)
        if command == 'TIME' then return {'1700000000', '000005'} end
        return server.call(command, ...)
      end }
      local function acquire() ${ACQUIRE_LUA} end
      local first = acquire()
      redis.call('DEL', KEYS[1])
      return {first, acquire()}`
    const tombstone = `lock:#hf:cancel:${'o'.repeat(22)}`
    const args = ['5000', ',"h":"h","p":1}']
    const drawn = await redis.eval(script, 3, 'lock:k', tombstone, COUNTER, ...args)
    expect(drawn).toEqual([1_700_000_000_000_005, 1_700_000_000_000_006])
  })

  it.each([
    ['a day ahead of the clock', 86_400_000_000n],
    ['ten seconds ahead', 10_000_000n],
  ])('is the next of the counter when that is %s', async (_, aheadBy) => {
    for (let round = 0; round < 5; round++) {
      const counter = (await microseconds()) + aheadBy
      await redis.set(COUNTER, `${counter}`)
      expect(await tokenOf('k')).toBe(counter + 1n)
      expect(await tokenOf('k')).toBe(counter + 2n)
    }
  })

  // Above 2^53 Lua's numbers round, and from 10^16 on text compared by bytes is out of order. Shortly
  // below 2^53 clients round: ioredis 6 and node-redis add up digits beyond it on the way.
  it.each([
    9_007_199_254_739_997n,
    2n ** 53n - 45n,
    2n ** 53n - 4n,
    2n ** 53n - 1n,
    2n ** 53n,
    2n ** 53n + 1n,
    9_999_999_999_999_999n,
    10_000_000_000_000_000n,
    999_999_999_999_999_999n,
    2n ** 62n,
    TOKEN_MAX - 3n,
  ])('is exact after %s', async (counter) => {
    await redis.set(COUNTER, `${counter}`)
    for (const step of [1n, 2n, 3n]) {
      const grant = await acquired(backend, 'k')
      expect(grant.fencingToken).toBe(counter + step)
      expect((await backend.inspect('k'))?.fencingToken).toBe(counter + step)
      expect(await redis.get('lock:k')).toContain(
        `:${(counter + step).toString().padStart(19, '0')}:`,
      )
      await backend.release(grant, 0)
    }
  })

  it.each([
    ['fewer digits than the clock', '999999'],
    ['no digits before a restart of its own', '1'],
  ])('is the clock where the counter has %s', async (_, counter) => {
    const before = await microseconds()
    await redis.set(COUNTER, counter)
    expect(await tokenOf('k')).toBeGreaterThanOrEqual(before)
  })

  it('is not granted beyond the largest of 64 bits, and nothing is left behind', async () => {
    await backend.raise('k', TOKEN_MAX - 1n)
    expect(await tokenOf('k')).toBe(TOKEN_MAX)
    await expect(backend.tryAcquire(request('k'))).rejects.toMatchObject({
      code: 'BACKEND_UNAVAILABLE',
      message: expect.stringContaining('no fencing token is left'),
    })
    expect(await redis.get(COUNTER)).toBe(`${TOKEN_MAX}`)
    expect(await redis.exists('lock:k')).toBe(0)
  })

  // Somebody wrote into our counter: a lock without a token must not come of it.
  it('that cannot be drawn grants nothing', async () => {
    await redis.set(COUNTER, '99999999999999999x')
    await expect(backend.tryAcquire(request('k'))).rejects.toMatchObject({
      code: 'OUTCOME_UNKNOWN',
    })
    await redis.del(COUNTER)
    await redis.rpush(COUNTER, 'a list')
    await expect(backend.tryAcquire(request('k'))).rejects.toMatchObject({
      code: 'OUTCOME_UNKNOWN',
    })
    expect(await redis.exists('lock:k')).toBe(0)
  })

  // B097: after a flush, an eviction of the counter or a failover numbers began at 1 again; guards
  // then refused every new holder, or let an old one pass.
  it.each([
    ['the counter is deleted', () => redis.del(COUNTER)],
    ['all data are flushed', () => redis.flushall()],
    ['the server comes back empty', () => stand.server.restart()],
  ])('still rises when %s', async (_, lose) => {
    const tokens = [await tokenOf('k')]
    for (let round = 0; round < 3; round++) {
      await lose()
      await expect.poll(() => tokenOf('k').then((token) => tokens.push(token))).toBeGreaterThan(0)
    }
    const sorted = [...tokens].sort((a, b) => (a < b ? -1 : 1))
    expect(tokens).toEqual(sorted)
    expect(new Set(tokens).size).toBe(tokens.length)
  })
})

describe('raise', () => {
  it('lifts, never lowers, and compares as numbers', async () => {
    await backend.raise('k', 9n)
    expect(await redis.get(COUNTER)).toBe('9')
    await backend.raise('k', 10n)
    expect(await redis.get(COUNTER)).toBe('10')
    await backend.raise('k', 9n)
    expect(await redis.get(COUNTER)).toBe('10')
    await backend.raise('k', 2n ** 53n + 1n)
    await backend.raise('k', 2n ** 53n)
    expect(await redis.get(COUNTER)).toBe(`${2n ** 53n + 1n}`)
    expect(await redis.pttl(COUNTER)).toBe(-1)
  })

  it.each([0n, -1n, 2n ** 63n, TOKEN_MAX])('refuses %s before anything is sent', async (token) => {
    await expect(backend.raise('k', token)).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' })
    expect(await allKeys(redis)).toEqual([])
  })
})

describe('memory of the server', () => {
  // B098: 25 of 75 million keys were counters of names that nobody used any more.
  it('keeps at most 64 keys of 100,000 names', async () => {
    const names = 100_000
    const lanes = 200
    let next = 0
    const work = async (): Promise<void> => {
      while (next < names) {
        const lockName = `job:${next++}`
        const result = await backend.tryAcquire(request(lockName))
        if (result.kind !== 'granted') throw new Error(`${lockName} was taken`)
        await backend.release(result.grant, 0)
      }
    }
    await Promise.all(Array.from({ length: lanes }, work))
    const keys = await allKeys(redis)
    expect(keys.every((key) => /^lock:#hf:token:\{\d\d\}$/.test(key))).toBe(true)
    expect(keys.length).toBe(64)
  }, 120_000)
})
