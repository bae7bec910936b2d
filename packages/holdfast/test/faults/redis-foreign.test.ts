import type { Redis } from 'ioredis'
import { beforeEach, describe, expect, it } from 'vitest'
import type { Backend, LockInfo } from '../../src/core/backend.ts'
import { NotALockError } from '../../src/core/errors.ts'
import { acquired, request } from '../../src/testkit/backend-harness.ts'
import { standOnRedis } from '../support/redis-stand.ts'

const stand = standOnRedis()
let redis: Redis
let backend: Backend

beforeEach(async () => {
  redis = stand.redis
  backend = await stand.backend()
})

const LONG_MS = 60_000
const reason = 'test'

async function listed(prefix: string, limit = 1000): Promise<LockInfo[]> {
  const found: LockInfo[] = []
  for await (const info of backend.list(prefix, limit)) found.push(info)
  return found
}

/** What is at the key must be the same afterwards, whatever is asked. */
async function leavesAlone(key: string, ask: () => Promise<unknown>): Promise<void> {
  const before = await redis.dumpBuffer(key)
  await ask()
  expect(await redis.dumpBuffer(key)).toEqual(before)
}

describe('a key that is no lock', () => {
  const kinds: readonly (readonly [string, (key: string) => Promise<unknown>])[] = [
    ['a string without TTL', (key) => redis.set(key, '{}')],
    ['a hash', (key) => redis.hset(key, 'a', '1')],
    ['a list', (key) => redis.rpush(key, 'a')],
    ['a set', (key) => redis.sadd(key, 'a')],
    ['a sorted set', (key) => redis.zadd(key, 1, 'a')],
    ['a stream', (key) => redis.xadd(key, '*', 'a', '1')],
    ['a list with TTL', (key) => redis.multi().rpush(key, 'a').pexpire(key, LONG_MS).exec()],
  ]

  // B013: locking a name that is also a data key never succeeded, said "busy" or broke on release;
  // a wait for PTTL -1 became a wait of no time, in a loop.
  it.each(kinds)('is named as such and left alone: %s', async (_, make) => {
    const unlocked = await stand.backend({ options: { keyPrefix: '' } })
    await make('order:7')
    const grant = await acquired(backend, 'order:7')
    await backend.release(grant, 0)
    await leavesAlone('order:7', async () => {
      for (const waits of [true, false]) {
        const asking = unlocked.tryAcquire(request('order:7', { waits }))
        await expect(asking).rejects.toBeInstanceOf(NotALockError)
        await expect(asking).rejects.toMatchObject({ code: 'NOT_A_LOCK', key: 'order:7' })
      }
      await expect(unlocked.inspect('order:7')).rejects.toBeInstanceOf(NotALockError)
      expect(await unlocked.release({ ...grant, lockName: 'order:7' }, 0)).toBe('not-held')
      expect(await unlocked.release({ ...grant, lockName: 'order:7' }, 10)).toBe('not-held')
      expect(await unlocked.proclaim(grant, 'x')).toBe('not-held')
      expect(await unlocked.renew(grant, LONG_MS)).toMatchObject({ kind: 'lost' })
      expect(await unlocked.handOver?.(grant, request('order:7'), true)).toEqual({
        kind: 'not-held',
      })
      await unlocked.cancel('order:7', grant.owner)
      const { fencingToken } = grant
      expect(await unlocked.revoke(request('order:7'), { fencingToken, reason })).toBeNull()
      const foreignOwner = '{}'
      expect(await unlocked.revoke(request('order:7'), { foreignOwner, reason })).toBeNull()
    })
    const names: string[] = []
    for await (const { lockName } of unlocked.list('order', 10)) names.push(lockName)
    expect(names).toEqual([])
  })

  it('is so too when it once was a lock and has lost its TTL', async () => {
    await acquired(backend, 'k')
    await redis.persist('lock:k')
    await expect(backend.tryAcquire(request('k'))).rejects.toMatchObject({
      key: 'lock:k',
      message: 'the key "lock:k" is not a lock: it never expires; it was left untouched',
    })
  })
})

describe('the lock of another program', () => {
  it('is respected: held, by nobody we know', async () => {
    await redis.set('lock:k', 'their-uuid', 'PX', 5000)
    const refused = await backend.tryAcquire(request('k', { waits: true }))
    expect(refused).toMatchObject({ kind: 'held', holder: null })
    expect(refused.kind === 'held' && refused.retryAfterMs).toBeLessThanOrEqual(5000)
    expect(await backend.inspect('k')).toMatchObject({
      lockName: 'k',
      fencingToken: null,
      holder: null,
      foreignOwner: 'their-uuid',
      sinceAtMs: null,
    })
    expect(await listed('')).toMatchObject([{ lockName: 'k', foreignOwner: 'their-uuid' }])
  })

  it.each([
    ['only looks like one of ours', 'hf1:x:1:{}'],
    ['is of a later version', 'hf2:AbCdEfGhIjKlMnOpQrStUg:0000000000000000007:{"s":1}'],
    ['has a token with too few digits', 'hf1:AbCdEfGhIjKlMnOpQrStUg:7:{"s":1}'],
    ['has broken JSON', 'hf1:not json'],
    ['is empty', ''],
  ])('is foreign when it %s', async (_, value) => {
    await redis.set('lock:k', value, 'PX', LONG_MS)
    expect(await backend.tryAcquire(request('k'))).toMatchObject({ kind: 'held', holder: null })
    const seen = await backend.inspect('k')
    expect(seen).toMatchObject({
      fencingToken: null,
      holder: null,
      foreignOwner: value.slice(0, 64),
    })
    const { foreignOwner } = seen ?? {}
    const taken = await backend.revoke(request('k'), { foreignOwner: foreignOwner ?? '', reason })
    expect(taken?.fencingToken).toBeGreaterThan(0n)
  })

  it('is shown by its first 64 bytes, in whole characters', async () => {
    await redis.set('lock:k', 'é'.repeat(100), 'PX', LONG_MS)
    expect((await backend.inspect('k'))?.foreignOwner).toBe('é'.repeat(32))
    await redis.set('lock:k', `x${'é'.repeat(100)}`, 'PX', LONG_MS)
    expect((await backend.inspect('k'))?.foreignOwner).toBe(`x${'é'.repeat(31)}`)
    await redis.set('lock:k', `xx${'\u{1f512}'.repeat(100)}`, 'PX', LONG_MS)
    expect((await backend.inspect('k'))?.foreignOwner).toBe(`xx${'\u{1f512}'.repeat(15)}`)
    await redis.set('lock:k', 'y'.repeat(1_000_000), 'PX', LONG_MS)
    expect((await backend.inspect('k'))?.foreignOwner).toBe('y'.repeat(64))
    await redis.set('lock:k', Buffer.alloc(100, 0x80), 'PX', LONG_MS)
    expect((await backend.inspect('k'))?.foreignOwner?.length).toBeLessThanOrEqual(64)
  })

  it('can be revoked by what was seen, keeps its end, and its owner is left without it', async () => {
    await redis.set('lock:k', 'their-uuid', 'PX', 5000)
    const wrong = await backend.revoke(request('k'), { foreignOwner: 'another', reason })
    expect(wrong).toBeNull()
    expect(await redis.get('lock:k')).toBe('their-uuid')
    const taken = await backend.revoke(request('k'), { foreignOwner: 'their-uuid', reason })
    expect(taken?.ttlMs).toBeLessThanOrEqual(5000)
    expect(taken?.fencingToken).toBeGreaterThan(0n)
    expect(await redis.get('lock:k')).toMatch(/^hf1:/)
    expect(await redis.pttl('lock:k')).toBeLessThanOrEqual(5000)
    if (!taken) throw new Error('the holder seen was the holder')
    expect(await backend.release(taken, 0)).toBe('released')
  })

  // The operator looked at one holder; the next one's value begins alike and ends otherwise.
  it('is not revoked in the place of one whose value began alike', async () => {
    const head = 'cluster-a/namespace-b/deployment-c/replica-set-d/pod-e/container-f/'
    expect(head.length).toBeGreaterThan(64)
    await redis.set('lock:k', `${head}1`, 'PX', LONG_MS)
    const seen = await backend.inspect('k')
    const foreignOwner = seen?.foreignOwner ?? ''
    await redis.set('lock:k', `${head}2`, 'PX', LONG_MS)
    expect(await backend.revoke(request('k'), { foreignOwner, reason })).toBeNull()
    expect(await redis.get('lock:k')).toBe(`${head}2`)
    const [again] = await listed('k')
    expect(again?.foreignOwner).toBe(foreignOwner)
    expect(await backend.revoke(request('k'), { foreignOwner, reason })).not.toBeNull()
  })

  it('is not revoked by the number of a token, nor one of ours by its text', async () => {
    await redis.set('lock:k', '0000000000000000007', 'PX', LONG_MS)
    expect(await backend.revoke(request('k'), { fencingToken: 7n, reason })).toBeNull()
    const grant = await acquired(backend, 'own')
    const value = (await redis.get('lock:own')) ?? ''
    for (const foreignOwner of [value.slice(0, 64), grant.owner, value]) {
      expect(await backend.revoke(request('own'), { foreignOwner, reason })).toBeNull()
    }
  })
})

describe('list', () => {
  it('shows locks and nothing else that lies under the prefix', async () => {
    await acquired(backend, 'a')
    await backend.release(await acquired(backend, 'resting'), LONG_MS)
    await backend.tryAcquire(request('a', { waits: true }))
    await backend.cancel('a', request('a').owner)
    await redis.set('lock:data', 'for ever')
    await redis.hset('lock:hash', 'a', '1')
    await redis.set('lock:foreign', 'x', 'PX', LONG_MS)
    await redis.set('other:lock:a', 'x', 'PX', LONG_MS)
    await redis.set('lock:', 'no name', 'PX', LONG_MS)
    const names = (await listed('')).map(({ lockName }) => lockName).sort()
    expect(names).toEqual(['a', 'foreign'])
  })

  it('takes prefix and key prefix by the letter', async () => {
    const keyPrefix = 'p*[a-z]?\\:'
    const odd = await stand.backend({ options: { keyPrefix, subscriber: false } })
    for (const lockName of ['*a', '?a', '[ab]', '\\', 'aa', '^-']) await acquired(odd, lockName)
    await redis.set('pxxaxx:*a', 'x', 'PX', LONG_MS)
    const names = async (prefix: string): Promise<string[]> => {
      const found: string[] = []
      for await (const { lockName } of odd.list(prefix, 100)) found.push(lockName)
      return found.sort()
    }
    expect(await names('')).toEqual(['*a', '?a', '[ab]', '\\', '^-', 'aa'].sort())
    for (const prefix of ['*', '?', '[', '\\', '^-', 'a']) {
      expect(await names(prefix)).toEqual(
        (await names('')).filter((name) => name.startsWith(prefix)),
      )
    }
  })

  // KEYS, or a walk without a bound, holds up every other client of the server.
  it('walks over a full server in small steps, gives each name once, and stops at its limit', async () => {
    const pipeline = redis.pipeline()
    for (let index = 0; index < 20_000; index++) pipeline.set(`data:${index}`, 'x')
    await pipeline.exec()
    for (let index = 0; index < 300; index++) await acquired(backend, `n:${index}`)
    const before = await redis.info('commandstats')
    const names = (await listed('n:')).map(({ lockName }) => lockName)
    const after = await redis.info('commandstats')
    expect(new Set(names).size).toBe(300)
    expect(names.length).toBe(300)
    expect(callsOf('scan', after) - callsOf('scan', before)).toBeGreaterThan(50)
    expect(callsOf('keys', after)).toBe(callsOf('keys', before))
    expect((await listed('n:', 7)).length).toBe(7)
    expect((await listed('n:', 300)).length).toBe(300)
  })
})

function callsOf(command: string, info: string): number {
  return Number(new RegExp(`cmdstat_${command}:calls=(\\d+)`).exec(info)?.[1] ?? 0)
}
