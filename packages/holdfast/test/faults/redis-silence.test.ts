import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import type { Lease, Locks } from '../../src/core/lease.ts'
import { allKeys, CLIENT_NAMES, keysWithoutTtl, until } from '../support/redis.ts'
import { standOnRedis } from '../support/redis-stand.ts'

const stand = standOnRedis()
const TTL_MS = 3000

/** The longest time for which this very process did nothing: nobody can be told meanwhile. */
function watchStalls(): { end(): number } {
  let longestMs = 0
  let lastMs = performance.now()
  const timer = setInterval(() => {
    const nowMs = performance.now()
    longestMs = Math.max(longestMs, nowMs - lastMs)
    lastMs = nowMs
  }, 5)
  return {
    end() {
      clearInterval(timer)
      return longestMs
    },
  }
}

interface Hold {
  readonly locks: Locks
  readonly lease: Lease
  /** On the wall clock, in milliseconds: when the holder was told. */
  readonly told: Promise<number>
}

/** Four holders, one by each client, that have been renewed once. */
async function holdAll(): Promise<Hold[]> {
  const holds = CLIENT_NAMES.map(async (name): Promise<Hold> => {
    const locks = await stand.locks({ name, port: stand.proxy.port })
    let renewals = 0
    locks.on('renewed', () => {
      renewals += 1
    })
    const lease = await locks.acquire(name, { ttlMs: TTL_MS })
    const told = new Promise<number>((resolve) => {
      lease.signal.addEventListener('abort', () => resolve(Date.now()))
    })
    await until(() => renewals > 0, 'a first renewal')
    return { locks, lease, told }
  })
  return Promise.all(holds)
}

/** When the server ends each key, on the wall clock that both processes share. */
async function endsOf(holds: readonly Hold[]): Promise<number[]> {
  const ends = holds.map(({ lease }) => stand.redis.pexpiretime(`lock:${lease.lockName}`))
  return Promise.all(ends)
}

/** What networks and servers do to a connection that stood until now. */
const SILENCES: Readonly<Record<string, () => unknown>> = {
  'is behind a black hole': () => {
    stand.proxy.drop('toServer')
    stand.proxy.drop('toClient')
  },
  'hears, and whose answers are lost': () => stand.proxy.drop('toClient'),
  'no longer hears': () => stand.proxy.drop('toServer'),
  'answers, but too late': () => stand.proxy.delay('toClient', 2 * TTL_MS),
  'hangs, with its connections open': () => {
    stand.server.freeze()
    stand.ends.push(() => stand.server.thaw())
  },
  'is gone, and refuses connections': () => {
    stand.proxy.isRefusing = true
    stand.proxy.reset()
  },
}

describe('a store that', () => {
  it.each(Object.keys(SILENCES))(
    '%s: holders by all four clients are told before their TTL can run out',
    async (kind) => {
      const holds = await holdAll()
      let ends = await endsOf(holds)
      const stalls = watchStalls()
      SILENCES[kind]?.()
      // A renewal that was under way may have lengthened a key after it was read.
      if (!kind.startsWith('hangs')) ends = await endsOf(holds)
      const told = await Promise.all(holds.map((hold) => hold.told))
      const stalledMs = stalls.end()
      for (const [index, { lease }] of holds.entries()) {
        expect(lease.signal.reason).toMatchObject({ code: 'LEASE_LOST', reason: 'expired' })
        const spareMs = (ends[index] as number) - (told[index] as number)
        // As far as this process could do anything at all.
        expect(spareMs).toBeGreaterThan(-stalledMs)
      }
      if (kind.startsWith('hangs')) stand.server.thaw()
      stand.proxy.heal()
      stand.proxy.reset()
      // The same program goes on: each takes its lock anew, with a larger token.
      for (const { locks, lease } of holds) {
        const again = await locks.acquire(lease.lockName, { ttlMs: TTL_MS, waitMs: 20_000 })
        expect(again.fencingToken).toBeGreaterThan(lease.fencingToken)
        await again.release()
      }
      await until(async () => (await lockKeys()).length === 0, 'nothing is held', 20_000)
      expect(await keysWithoutTtl(stand.redis)).toEqual([])
    },
  )

  // B002: a renewal that was confirmed after the lease had run out was taken for a success.
  it.each(CLIENT_NAMES)(
    'confirms too late revives no lease, and grants none, by %s',
    async (name) => {
      const locks = await stand.locks({ name, port: stand.proxy.port })
      await (await locks.acquire('warm')).release()
      const slow = { ttlMs: 500, renew: false }
      const lease = await locks.acquire('k', slow)
      stand.proxy.delay('toClient', 600)
      const failure: unknown = await lease.renew().catch((error: unknown) => error)
      expect((failure as { code: string }).code).toMatch(/^(LEASE_LOST|OUTCOME_UNKNOWN)$/)
      await until(() => lease.signal.aborted, 'it is told')
      await expect(lease.renew()).rejects.toMatchObject({ code: 'LEASE_LOST' })
      // The late answer has come, and the key may even stand.
      await sleep(700)
      expect([lease.isHeld, lease.remainingMs()]).toEqual([false, 0])
      await expect(locks.tryAcquire('other', slow)).rejects.toMatchObject({
        code: 'OUTCOME_UNKNOWN',
      })
      stand.proxy.heal()
      await until(async () => (await stand.redis.exists('lock:other')) === 0, 'it is undone')
      const tombstones = (await allKeys(stand.redis)).filter((key) => key.includes('#hf:cancel:'))
      expect(tombstones.length).toBeGreaterThan(0)
      await lease.release()
    },
  )
})

async function lockKeys(): Promise<string[]> {
  return (await allKeys(stand.redis)).filter((key) => !key.includes('#hf:'))
}
