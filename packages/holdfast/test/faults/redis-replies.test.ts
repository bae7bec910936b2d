import { beforeEach, describe, expect, it } from 'vitest'
import type { Locks } from '../../src/core/lease.ts'
import type { ProxyConnection } from '../../src/testkit/proxy.ts'
import { allKeys, CLIENT_NAMES, keysWithoutTtl, until } from '../support/redis.ts'
import { standOnRedis } from '../support/redis-stand.ts'

const stand = standOnRedis()

/** What happens to the next request of a script, before it is handed on. */
function atNextRequest(fault: (connection: ProxyConnection) => void): Promise<ProxyConnection> {
  return new Promise((resolve) => {
    stand.proxy.onBytes = (direction, bytes, connection) => {
      const isRequest = /\r\nevalsha\r\n/i.test(Buffer.from(bytes).toString('latin1'))
      if (direction !== 'toServer' || !isRequest) return
      stand.proxy.onBytes = () => undefined
      fault(connection)
      resolve(connection)
    }
  })
}

async function tombstones(): Promise<number> {
  return (await allKeys(stand.redis)).filter((key) => key.includes('#hf:cancel:')).length
}

const value = (): Promise<string | null> => stand.redis.get('lock:k')
const isFree = async (): Promise<boolean> => (await value()) === null
const LONG = { ttlMs: 30_000 }

describe.each(CLIENT_NAMES)('of %s', (name) => {
  let locks: Locks

  // So that the server knows every script, and the next request is the one that is meant.
  beforeEach(async () => {
    locks = await stand.locks({ name, port: stand.proxy.port })
    const first = await locks.acquire('warm', LONG)
    const second = locks.acquire('warm', { ...LONG, waitMs: 10_000 })
    await first.release()
    await (await second).release()
  })

  async function nothingIsLeft(): Promise<void> {
    await until(isFree, 'the lock is free', 20_000)
    expect(await keysWithoutTtl(stand.redis)).toEqual([])
  }

  /**
   * Keeps an acquire of 'k' back on its way, until its own undo, on a connection of later, has
   * overtaken it and nobody who asked is there any more. Then lets it arrive.
   *
   * @param meanwhile Between the two.
   * @returns What the server answers to it.
   */
  async function arrivesLate(meanwhile: () => Promise<unknown>): Promise<string> {
    const asked = atNextRequest((connection) => connection.hold('toServer'))
    const failure = locks.tryAcquire('k', LONG).catch((error: unknown) => error)
    const connection = await asked
    connection.resetClient()
    expect(await failure).toMatchObject({ code: 'OUTCOME_UNKNOWN' })
    await until(async () => (await tombstones()) === 1, 'it is undone', 20_000)
    await meanwhile()
    return new Promise((resolve) => {
      stand.proxy.onBytes = (direction, bytes, { id }) => {
        if (direction === 'toClient' && id === connection.id) resolve(String(Buffer.from(bytes)))
      }
      connection.letGo('toServer')
    })
  }

  it('an acquire that arrives after its undo is refused', async () => {
    expect(await arrivesLate(async () => undefined)).toContain('cancelled')
    expect(await value()).toBeNull()
    const other = await (await stand.locks()).acquire('k', LONG)
    await other.release()
    await nothingIsLeft()
  })

  // That it is the tombstone which refuses, and that nothing else on the way would have.
  it('an acquire that arrives after its undo and without its tombstone is granted', async () => {
    const dig = async (): Promise<void> => {
      const keys = await allKeys(stand.redis)
      await stand.redis.del(keys.filter((key) => key.includes('#hf:cancel:')))
    }
    expect(await arrivesLate(dig)).toMatch(/^:\d+\r\n/)
    const left = await stand.redis.pttl('lock:k')
    expect(left).toBeGreaterThan(0)
    expect(left).toBeLessThanOrEqual(LONG.ttlMs)
  })

  it('an acquire whose answer is lost is undone, and what held it is a tombstone', async () => {
    const asked = atNextRequest((connection) => connection.drop('toClient'))
    const failure = locks.tryAcquire('k', LONG).catch((error: unknown) => error)
    const connection = await asked
    await until(async () => (await value()) !== null, 'it was executed')
    connection.reset()
    expect(await failure).toMatchObject({ code: 'OUTCOME_UNKNOWN' })
    await nothingIsLeft()
    expect(await tombstones()).toBe(1)
  })

  it.each(['toServer', 'toClient'] as const)(
    'a release of which one is lost, %s, is repeated and confirmed',
    async (direction) => {
      const lease = await locks.acquire('k', LONG)
      const asked = atNextRequest((connection) => connection.drop(direction))
      const releasing = lease.release()
      const connection = await asked
      if (direction === 'toClient') await until(isFree, 'it was executed')
      connection.reset()
      expect(await releasing).toBe('released')
      expect(lease.signal.aborted).toBe(false)
      await nothingIsLeft()
      expect(await tombstones()).toBe(0)
    },
  )

  it('a release that never arrives is told as unknown, and the lock ends with its TTL', async () => {
    const lease = await locks.acquire('k', { ttlMs: 3000, renew: false })
    stand.proxy.drop('toServer')
    await expect(lease.release()).rejects.toMatchObject({ code: 'OUTCOME_UNKNOWN' })
    expect(lease.isHeld).toBe(false)
    expect(await stand.redis.pttl('lock:k')).toBeLessThanOrEqual(3000)
    await nothingIsLeft()
  })

  // Both the old holder and the next believe, or neither: in doubt the next one is undone, and asks.
  it.each(['toServer', 'toClient'] as const)(
    'a hand-over of which one is lost, %s, leaves one holder, the next in line',
    async (direction) => {
      const lease = await locks.acquire('k', LONG)
      const waiting = locks.acquire('k', { ...LONG, waitMs: 20_000 })
      const before = await value()
      const asked = atNextRequest((connection) => connection.drop(direction))
      const releasing = lease.release()
      const connection = await asked
      if (direction === 'toClient') {
        await until(async () => (await value()) !== before, 'it was executed')
      }
      const given = await value()
      connection.reset()
      expect(await releasing).toBe('released')
      const next = await waiting
      expect(next.fencingToken).toBeGreaterThan(lease.fencingToken)
      expect(await value()).toContain(next.owner)
      // The grant of which nobody was told has no holder, and never will.
      expect(given).not.toContain(next.owner)
      // The undo is tried again beside the next one's asking, and may come behind its grant.
      await until(async () => (await tombstones()) === 1, 'it is undone')
      expect(await locks.tryAcquire('k')).toBeNull()
      expect(await next.release()).toBe('released')
      await nothingIsLeft()
    },
  )

  it('a renewal whose answer is lost loses nothing', async () => {
    const told: string[] = []
    for (const type of ['renewed', 'renewal-failed', 'lost'] as const) {
      locks.on(type, () => told.push(type))
    }
    const asked = atNextRequest(() => undefined)
    const lease = await locks.acquire('k', { ttlMs: 12_000, renewEveryMs: 500 })
    await asked
    const renewal = await atNextRequest((connection) => connection.drop('toClient'))
    renewal.reset()
    await until(() => told.includes('renewal-failed'), 'it is told')
    const failedAt = told.indexOf('renewal-failed')
    await until(() => told.slice(failedAt).includes('renewed'), 'a renewal after it')
    expect(told).not.toContain('lost')
    expect(await lease.release()).toBe('released')
    await nothingIsLeft()
  })
})
