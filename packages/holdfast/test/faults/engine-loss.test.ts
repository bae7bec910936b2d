import { describe, expect, it } from 'vitest'
import { BackendUnavailableError, LeaseLostError } from '../../src/core/errors.ts'
import type { Lease, LeaseOptions } from '../../src/core/lease.ts'
import { lifeMs } from '../../src/core/validity.ts'
import { answering, lostRequest, refusedWith } from '../support/faulty-backend.ts'
import { type Engine, openWorld, timersLeft, type World, watch } from '../support/open-engine.ts'

const DOWN = refusedWith(new BackendUnavailableError('down', 'connection refused'))
const TTL = { ttlMs: 1000 }

type End = Readonly<{
  title: string
  options?: LeaseOptions
  end(lease: Lease, world: World, engine: Engine): Promise<unknown>
  told: 'lost' | 'released'
  reason: string | null
}>

const ENDS: End[] = [
  {
    title: 'released',
    end: (lease) => lease.release(),
    told: 'released',
    reason: null,
  },
  {
    title: 'released, but the store does not say so',
    end: async (lease, { clock }, { backend }) => {
      backend.always('release', lostRequest)
      lease.release().catch((error) => expect(error).toHaveProperty('code', 'OUTCOME_UNKNOWN'))
      await clock.advance(3000)
    },
    told: 'released',
    reason: null,
  },
  {
    title: 'expired',
    options: { renew: false },
    end: (_, { clock }) => clock.advance(1000),
    told: 'lost',
    reason: 'expired',
  },
  {
    title: 'expired with a dead store',
    end: async (_, { clock }, { backend }) => {
      backend.always('renew', DOWN)
      await clock.advance(1000)
    },
    told: 'lost',
    reason: 'expired',
  },
  {
    title: 'expired with a silent store',
    end: async (_, { clock }, { backend }) => {
      backend.always('renew', lostRequest)
      await clock.advance(1000)
    },
    told: 'lost',
    reason: 'expired',
  },
  {
    title: 'gone from the store',
    end: async (lease, { clock, store }) => {
      await store.cancel('k', lease.owner)
      await clock.advance(400)
    },
    told: 'lost',
    reason: 'expired',
  },
  {
    title: 'gone from the store, found by the release',
    end: async (lease, { store }) => {
      await store.cancel('k', lease.owner)
      expect(await lease.release()).toBe('not-held')
    },
    told: 'lost',
    reason: 'expired',
  },
  {
    title: 'taken by another owner',
    end: async (lease, { clock, store, engine }) => {
      await store.cancel('k', lease.owner)
      await engine().locks.acquire('k', { ttlMs: 60_000, renew: false })
      await clock.advance(400)
    },
    told: 'lost',
    reason: 'superseded',
  },
  {
    title: 'revoked by an operator',
    end: async ({ fencingToken }, { engine }) => {
      const operator = engine().locks
      const taken = await operator.revoke('k', { fencingToken, reason: 'stuck' })
      expect(taken!.fencingToken > fencingToken).toBe(true)
      await taken?.release()
    },
    told: 'lost',
    reason: 'revoked',
  },
  {
    title: 'revoked by an operator, told by the next renewal',
    end: async (_, { clock }, { backend }) => {
      backend.next('renew', answering(Promise.resolve({ kind: 'lost', reason: 'revoked' })))
      await clock.advance(400)
    },
    told: 'lost',
    reason: 'revoked',
  },
  {
    title: 'held for maxHoldMs',
    options: { maxHoldMs: 2500 },
    end: (_, { clock }) => clock.advance(2500),
    told: 'lost',
    reason: 'max-hold',
  },
  {
    title: 'ended by close()',
    end: (_, __, { locks }) => locks.close(),
    told: 'lost',
    reason: 'session-ended',
  },
  {
    title: 'slept through',
    end: async (lease, { clock }) => {
      clock.suspend(60_000)
      expect(lease.isHeld).toBe(false)
    },
    told: 'lost',
    reason: 'expired',
  },
  {
    title: 'blocked through',
    end: async (lease, { clock }) => {
      clock.block(60_000)
      expect(() => lease.assertValid()).toThrow(LeaseLostError)
    },
    told: 'lost',
    reason: 'expired',
  },
]

describe('every end of a lease', () => {
  for (const { title, options = {}, end, told: type, reason } of ENDS) {
    // B037: one of several ways to end a hold told nobody, and it was the important one.
    it(`is told exactly once, with its reason: ${title}`, async () => {
      const world = openWorld()
      const own = world.engine()
      const lease = await own.locks.acquire('k', { ...TTL, ...options })
      const { signal } = lease
      let aborts = 0
      signal.addEventListener('abort', () => {
        aborts += 1
      })
      await end(lease, world, own)
      // Whatever still comes late, and whoever still asks, changes nothing.
      own.backend.always('renew', null)
      own.backend.requests[0]?.onLost('revoked')
      await lease.release().catch((error) => expect(error).toHaveProperty('code'))
      await lease.renew().catch((error) => expect(error).toHaveProperty('code', 'LEASE_LOST'))
      await world.clock.advance(10_000)
      const { fencingToken } = lease
      const ends = own.told.filter((event) => event.fencingToken === fencingToken)
      const terminal = ends.filter((event) => event.type === 'lost' || event.type === 'released')
      expect(terminal).toMatchObject([{ type, reason }])
      expect(ends[0]?.type).toBe('acquired')
      expect(ends.slice(ends.indexOf(terminal[0]!) + 1)).toEqual([])
      expect(aborts).toBe(type === 'lost' ? 1 : 0)
      if (type === 'lost') {
        const expected = { code: 'LEASE_LOST', lockName: 'k', fencingToken, reason }
        expect(signal.reason).toMatchObject(expected)
        // B100: after the loss the handle refuses.
        expect(() => lease.assertValid()).toThrow(expect.objectContaining(expected))
      }
      expect(() => lease.assertValid()).toThrow(LeaseLostError)
      expect(lease).toMatchObject({ isHeld: false })
      expect(lease.remainingMs()).toBe(0)
      expect(await timersLeft(world.clock)).toBe(0)
    })
  }
})

describe('a lost lease', () => {
  // B032: the error of a renewal in the background had no owner, and ended the process.
  it('aborts its signal and rejects its using, and nothing else, when the store dies', async () => {
    const { clock, engine } = openWorld()
    const { locks, backend } = engine()
    const beganAtMs = clock.nowMs()
    const using = watch(
      clock,
      locks.using('k', TTL, async (lease) => {
        await new Promise((resolve) => lease.signal.addEventListener('abort', resolve))
        return 'stopped'
      }),
    )
    for (const method of ['renew', 'release', 'tryAcquire', 'cancel'] as const) {
      backend.always(method, method === 'tryAcquire' ? null : DOWN)
    }
    await clock.advance(5000)
    expect(using.error).toBeInstanceOf(LeaseLostError)
    expect(using.error).toMatchObject({
      reason: 'expired',
      settled: { status: 'fulfilled', value: 'stopped' },
    })
    // Told before the store could have given it away; answered within the release's own small budget.
    expect(using.atMs).toBeLessThanOrEqual(beganAtMs + 1000)
    expect(using.atMs).toBeGreaterThanOrEqual(beganAtMs + lifeMs(1000))
  })

  // B033: after an outage the same process claimed to hold the lock already, and could not take it.
  it('can be taken again by the same process, with a larger token', async () => {
    const { clock, engine } = openWorld()
    const { locks, backend } = engine()
    const lease = await locks.acquire('k', TTL)
    for (const method of ['renew', 'tryAcquire', 'release'] as const) backend.always(method, DOWN)
    await clock.advance(3000)
    expect(lease.isHeld).toBe(false)
    const again = watch(clock, locks.acquire('k', { ...TTL, waitMs: 10_000 }))
    await clock.advance(1000)
    for (const method of ['renew', 'tryAcquire', 'release'] as const) backend.always(method, null)
    await clock.advance(3000)
    expect(again.value!.fencingToken > lease.fencingToken).toBe(true)
    // The old one cannot harm the new one.
    expect(await lease.release()).toBe('not-held')
    await clock.advance(5000)
    expect(again.value!.isHeld).toBe(true)
  })

  // What the loss left behind in the process made its own contenders deaf to the others' releases.
  it('does not keep its process from listening to the next holder', async () => {
    const { clock, engine } = openWorld()
    const ours = engine()
    const theirs = engine()
    await ours.locks.acquire('k', { ...TTL, renew: false })
    await clock.advance(1000)
    const holder = await theirs.locks.acquire('k', { ttlMs: 60_000 })
    const waiting = watch(clock, ours.locks.acquire('k', TTL))
    await clock.advance(100)
    await holder.release()
    await clock.advance(15)
    expect(waiting.state).toBe('resolved')
  })

  // B035: releasing an expired lock used the waiting rules of an acquire, blocked for all of them, and
  // then threw.
  it('is released within one request, whatever the waiting options are', async () => {
    const { clock, engine } = openWorld()
    const { locks, backend } = engine()
    const forever = Number.POSITIVE_INFINITY
    const lease = await locks.acquire('k', { ttlMs: 200, waitMs: forever, renew: false })
    await clock.advance(1000)
    const atMs = clock.nowMs()
    expect(await lease.release()).toBe('not-held')
    expect(clock.nowMs()).toBe(atMs)
    expect(backend.callsOf('release')).toHaveLength(1)

    const hung = await locks.acquire('k', { ttlMs: 200, waitMs: forever, renew: false })
    await clock.advance(1000)
    backend.always('release', lostRequest)
    const released = watch(clock, hung.release())
    await clock.advance(2000)
    expect(released.value).toBe('not-held')
    expect(released.atMs! - clock.nowMs() + 2000).toBeLessThanOrEqual(200)
  })

  // B035, second part: inside a scope, with the loop blocked for the whole lease.
  it('ends its using at once after a block, and tells what was done', async () => {
    const { clock, engine } = openWorld()
    const { locks } = engine()
    const using = watch(
      clock,
      locks.using('k', { ...TTL, waitMs: Number.POSITIVE_INFINITY }, async () => {
        clock.block(5000)
        return 'written'
      }),
    )
    await clock.advance(0)
    expect(using.error).toMatchObject({ code: 'LEASE_LOST', settled: { value: 'written' } })
  })

  // B036: the error of the work disappeared behind the error of the release.
  it('never hides what the work itself threw', async () => {
    const { clock, engine } = openWorld()
    const { locks, backend } = engine()
    const business = new Error('business')
    const lateWork = async (): Promise<never> => {
      await new Promise<void>((resolve) => clock.after(400, resolve))
      throw business
    }
    const lost = watch(clock, locks.using('k', { ttlMs: 200, renew: false }, lateWork))
    await clock.advance(1000)
    expect(lost.error).toBe(business)
    expect(business.cause).toMatchObject({ code: 'LEASE_LOST', reason: 'expired' })

    const plain = new Error('plain')
    backend.always('release', refusedWith(new Error('socket closed')))
    const failed = watch(
      clock,
      locks.using('other', TTL, async () => {
        throw plain
      }),
    )
    await clock.advance(3000)
    expect(failed.error).toBe(plain)
    expect(plain.cause).toBeUndefined()
  })

  // B036, second part: a value that rests on a lock that was gone was returned as a success.
  it('never lets a result pass as a success, nor an error of its own pass as the work’s', async () => {
    const { clock, engine } = openWorld()
    const { locks } = engine()
    const works: ((lease: Lease) => Promise<unknown>)[] = [
      async () => 'value',
      async (lease) => lease.assertValid(),
      async (lease) => Promise.reject(lease.signal.reason),
      async (lease) => {
        throw new Error('fetch failed', { cause: lease.signal.reason })
      },
    ]
    for (const work of works) {
      const using = watch(
        clock,
        locks.using('k', { ttlMs: 200, renew: false }, async (lease) => {
          await new Promise<void>((resolve) => clock.after(400, resolve))
          return work(lease)
        }),
      )
      await clock.advance(1000)
      expect(using.error).toBeInstanceOf(LeaseLostError)
      expect(using.error).toMatchObject({
        reason: 'expired',
        settled: { status: expect.any(String) },
      })
    }
  })

  // B100, B096: what is left is compared on the spot, against what the next step needs.
  it('refuses a step that needs more time than is left', async () => {
    const { clock, engine } = openWorld()
    const { locks } = engine()
    const lease = await locks.acquire('k', { ttlMs: 1000, renew: false })
    await clock.advance(500)
    expect(() => lease.assertValid(lifeMs(1000) - 500)).not.toThrow()
    expect(() => lease.assertValid(lifeMs(1000) - 499)).toThrow(LeaseLostError)
    expect(lease.isHeld).toBe(true)
    for (const wrong of [-1, Number.NaN, '5' as never]) {
      expect(() => lease.assertValid(wrong)).toThrow(/remainingMsMin/)
    }
  })
})
