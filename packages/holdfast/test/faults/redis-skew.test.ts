import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { redisBackendWith } from '../../src/backends/redis/redis-backend.ts'
import type { Locks } from '../../src/core/lease.ts'
import { type Seams, systemSeams } from '../../src/core/seams.ts'
import { postgresGuardWith } from '../../src/guards/postgres/guard.ts'
import { createLocksWith } from '../../src/lock/lock.ts'
import { moduleUrl, openChildren } from '../support/child.ts'
import { openPool, startPostgresStand } from '../support/postgres.ts'
import { CLIENT_NAMES, until } from '../support/redis.ts'
import { standOnRedis } from '../support/redis-stand.ts'

const stand = standOnRedis()
const SKEW_MS = 180_000

/** A host whose wall clock is wrong; everything else of it is right. */
function skewed(ms: number): Seams {
  return { ...systemSeams, wallMs: () => systemSeams.wallMs() + ms }
}

async function locksOn(seams: Seams): Promise<Locks> {
  const { client } = await stand.open()
  const locks = createLocksWith(seams, redisBackendWith(seams, client, { subscriber: false }))
  stand.ends.push(() => locks.close())
  return locks
}

// B086: hosts whose clocks differed took each other's leases, because the time that was compared with
// was the client's.
describe.each([SKEW_MS, -SKEW_MS])('a host whose clock is %i ms off', (skewMs) => {
  it('takes nobody’s lease, and holds one as long as any other', async () => {
    const right = await locksOn(systemSeams)
    const wrong = await locksOn(skewed(skewMs))
    const beganAtMs = Date.now()
    const lease = await right.acquire('k', { ttlMs: 120_000 })
    expect(await wrong.tryAcquire('k')).toBeNull()
    const atServer = await stand.redis.pttl('lock:k')
    expect(atServer).toBeGreaterThan(100_000)
    const seen = await wrong.inspect('k')
    expect(seen?.remainingMs).toBeLessThanOrEqual(atServer)
    expect(seen?.remainingMs).toBeGreaterThan(100_000)
    expect(seen?.sinceAtMs).toBeLessThanOrEqual(Date.now())
    // The server's clock is this machine's; a millisecond may be cut off.
    expect(seen?.sinceAtMs).toBeGreaterThanOrEqual(beganAtMs - 1)
    await lease.release()
    // The same the other way round.
    const second = await wrong.acquire('k', { ttlMs: 120_000 })
    expect(second.fencingToken).toBeGreaterThan(lease.fencingToken)
    expect(await stand.redis.pttl('lock:k')).toBeLessThanOrEqual(120_000)
    expect(second.remainingMs()).toBeGreaterThan(100_000)
    expect(await right.tryAcquire('k')).toBeNull()
    await second.release()
    const third = await right.acquire('k', { ttlMs: 120_000 })
    expect(third.fencingToken).toBeGreaterThan(second.fencingToken)
    await third.release()
  })

  it('ends a lease of its own neither early nor late', async () => {
    const wrong = await locksOn(skewed(skewMs))
    const lease = await wrong.acquire('k', { ttlMs: 1000, renew: false })
    expect(lease.isHeld).toBe(true)
    await sleep(300)
    expect(await stand.redis.exists('lock:k')).toBe(1)
    await until(() => lease.signal.aborted, 'it is told')
    expect(lease.signal.reason).toMatchObject({ reason: 'expired' })
    await until(async () => (await stand.redis.exists('lock:k')) === 0, 'the server ended it')
  })
})

it('a guard on a host whose clock is off refuses and admits by tokens alone', async () => {
  const data = await startPostgresStand()
  try {
    const locks = await locksOn(systemSeams)
    const older = await locks.acquire('k', { ttlMs: 60_000 })
    await older.release()
    const newer = await locks.acquire('k', { ttlMs: 60_000 })
    for (const [round, skewMs] of [SKEW_MS, -SKEW_MS].entries()) {
      const pool = openPool(data.server, data.server.port)
      const guard = postgresGuardWith(pool, {}, skewed(skewMs))
      expect(await guard.claim(newer)).toEqual({ seq: BigInt(round + 1) })
      const { lockName, fencingToken, owner, source } = older
      const late = { lockName, fencingToken, owner, source }
      await expect(guard.claim(late)).rejects.toMatchObject({ code: 'STALE_TOKEN' })
      await pool.end()
    }
    await newer.release()
  } finally {
    await data.stop()
  }
})

describe('a request that stands still between its making and its arrival', () => {
  // B086, second part: "now" was computed, the process was stopped for 6 s, and what was written then
  // was a lease with a past that the others took for a future.
  it.each(CLIENT_NAMES)('is granted too late to be of use, by %s, and is undone', async (name) => {
    const locks = await stand.locks({ name, port: stand.proxy.port })
    await (await locks.acquire('warm')).release()
    stand.proxy.hold('toServer')
    const asking = locks.tryAcquire('k', { ttlMs: 1000 }).catch((error: unknown) => error)
    await sleep(2000)
    stand.proxy.letGo('toServer')
    expect(await asking).toMatchObject({ code: 'OUTCOME_UNKNOWN' })
    await until(async () => (await stand.redis.exists('lock:k')) === 0, 'it is undone')
    const next = await (await stand.locks()).acquire('k', { ttlMs: 1000 })
    await next.release()
  })

  it('in a process that is stopped counts from before the stop', async () => {
    const children = await openChildren()
    stand.ends.push(() => children.remove())
    const child = children.run(`
      import ioredis from ${moduleUrl('ioredis')}
      import { createLocks } from './dist/index.js'
      import { redisBackend } from './dist/redis.js'
      const client = new ioredis.Redis(${stand.server.port}, '127.0.0.1')
      let stops = false
      // Our time is read before the client is called; then the process stops itself.
      const stopping = {
        eval: (...args) => client.eval(...args),
        evalsha: (...args) => {
          if (stops) process.kill(process.pid, 'SIGSTOP')
          stops = false
          return client.evalsha(...args)
        },
      }
      const locks = createLocks(redisBackend(stopping, { subscriber: false }))
      await (await locks.acquire('warm')).release()
      stops = true
      process.send('asks')
      const outcome = await locks.tryAcquire('k', { ttlMs: 1000 }).catch((error) => error)
      console.log(outcome.code, outcome.isHeld ?? false)
      await locks.close()
      client.disconnect()
    `)
    await child.sent('asks')
    await sleep(2500)
    child.signal('SIGCONT')
    const { code, stdout, stderr } = await child.ended
    expect([code, stderr]).toEqual([0, ''])
    expect(stdout.trim()).toBe('OUTCOME_UNKNOWN false')
    expect(await stand.redis.exists('lock:k')).toBe(0)
  })
})
