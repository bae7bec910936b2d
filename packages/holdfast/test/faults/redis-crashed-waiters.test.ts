import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Lease } from '../../src/core/lease.ts'
import { type Child, type Children, moduleUrl, openChildren } from '../support/child.ts'
import { allKeys, until } from '../support/redis.ts'
import { standOnRedis } from '../support/redis-stand.ts'

const stand = standOnRedis()
let children: Children

beforeAll(async () => {
  children = await openChildren()
})

afterAll(() => children.remove())

const LONG = { ttlMs: 30_000 }

/** A process with three contenders who wait 500 ms at a time, again and again. */
function restless(): Child {
  return children.run(`
    import ioredis from ${moduleUrl('ioredis')}
    import { createLocks } from './dist/index.js'
    import { redisBackend } from './dist/redis.js'
    const client = new ioredis.Redis(${stand.server.port}, '127.0.0.1')
    const locks = createLocks(redisBackend(client))
    let refusals = 0
    const work = async () => {
      for (;;) {
        const lease = await locks.acquire('k', { ttlMs: 10_000, waitMs: 500 }).catch(() => null)
        if (lease) await lease.release()
        else if (++refusals === 3) process.send('waits')
      }
    }
    await Promise.all([work(), work(), work()])
  `)
}

async function helperKeys(): Promise<string[]> {
  return (await allKeys(stand.redis)).filter((key) => key.includes('#hf:want:'))
}

describe('contenders that crash', () => {
  // B065: each entry of a dead contender held up the queue for a time of its own, one after the other:
  // minutes to days.
  it('hold up the living for less than two heart-beats, and leave nothing in the store', async () => {
    const holder = await (await stand.locks({ options: {} })).acquire('k', LONG)
    const crowd = Array.from({ length: 4 }, restless)
    await Promise.all(crowd.map((child) => child.sent('waits')))
    const [living, ...doomed] = crowd
    for (const child of doomed) child.signal('SIGKILL')
    await Promise.all(doomed.map((child) => child.ended))
    const locks = await stand.locks({ options: {} })
    const waiting = locks.acquire('k', { ...LONG, waitMs: 20_000 })
    await sleep(100)
    const freedAtMs = performance.now()
    await holder.release()
    const lease = await waiting
    // A mark of those who wait lives for 2 s.
    expect(performance.now() - freedAtMs).toBeLessThan(4000)
    await until(async () => (await helperKeys()).length === 1, 'the living have left a mark')
    living?.signal('SIGKILL')
    await living?.ended
    // While the lock is still held, so by its own end and not by a release.
    await until(async () => (await helperKeys()).length === 0, 'no mark is left', 10_000)
    await lease.release()
    const rest = (await allKeys(stand.redis)).filter((key) => !key.includes('#hf:'))
    expect(rest).toEqual([])
  })

  // A contender that died between being told "free" and asking took the turn of all others with it.
  it('as holders, too, cost the others one TTL and no more', async () => {
    const child = children.run(`
      import ioredis from ${moduleUrl('ioredis')}
      import { createLocks } from './dist/index.js'
      import { redisBackend } from './dist/redis.js'
      const client = new ioredis.Redis(${stand.server.port}, '127.0.0.1')
      const locks = createLocks(redisBackend(client))
      await locks.acquire('k', { ttlMs: 2000 })
      process.send('holds')
      setInterval(() => {}, 1000)
    `)
    await child.sent('holds')
    const locks = await stand.locks({ options: {} })
    const waiting = locks.acquire('k', { ...LONG, waitMs: 20_000 })
    await sleep(100)
    child.signal('SIGKILL')
    await child.ended
    const diedAtMs = performance.now()
    const lease = await waiting
    // The rest of its TTL, and one poll.
    expect(performance.now() - diedAtMs).toBeLessThan(2000 + 3000)
    await lease.release()
  })
})

describe('a contender that waits for long', () => {
  // B066: who waited longer than an entry of the queue lived was dropped from it, and never told.
  it.each([true, false])(
    'longer than its mark lives is still let in, with wake-ups: %s',
    async (pushes) => {
      const opening = pushes ? { options: {} } : {}
      const busy = await stand.locks(opening)
      const patient = await stand.locks(opening)
      let isOver = false
      let turns = 0
      // Two callers who pass the lock to each other: only a mark of somebody else's makes them stop.
      const caller = async (): Promise<void> => {
        while (!isOver) {
          const lease = await busy.acquire('k', { ...LONG, waitMs: 60_000 })
          turns += 1
          await sleep(20)
          await lease.release()
        }
      }
      const first = await busy.acquire('k', LONG)
      const callers = [caller(), caller()]
      let theirs: Lease | null = null
      const waiting = patient.acquire('k', { ...LONG, waitMs: 30_000 }).then((lease) => {
        theirs = lease
        return lease
      })
      await until(async () => (await helperKeys()).length === 1, 'it has left its mark')
      // Others join and leave meanwhile, and the mark's own life is over twice.
      for (let round = 0; round < 10; round++) {
        const passing = await stand.locks()
        await expect(passing.acquire('k', { waitMs: 300 })).rejects.toHaveProperty(
          'code',
          'LOCK_HELD',
        )
        await sleep(150)
      }
      expect([theirs, turns]).toEqual([null, 0])
      expect((await helperKeys()).length).toBe(1)
      await first.release()
      const lease = await waiting
      // At most as many as stood in their line when the mark was first seen, and the one in hand.
      expect(turns).toBeLessThanOrEqual(10)
      isOver = true
      await lease.release()
      await Promise.all(callers)
    },
  )
})
