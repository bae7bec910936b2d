import { describe, expect, it } from 'vitest'
import { memoryBackend } from '../../src/backends/memory/memory.ts'
import { lifeMs } from '../../src/core/validity.ts'
import { createLocks } from '../../src/lock/lock.ts'
import { createVirtualClock } from '../../src/testkit/virtual-clock.ts'
import { gate } from '../support/faulty-backend.ts'
import { openWorld, watch } from '../support/open-engine.ts'

const FOREVER = Number.POSITIVE_INFINITY

describe('a blocked event loop', () => {
  // B025: the work blocked the loop past the lease, and went on when it came back.
  it('past the deadline is found by the first look, before any renewal is sent', async () => {
    const { clock, engine } = openWorld()
    const ours = engine()
    const theirs = engine()
    const lease = await ours.locks.acquire('k', { ttlMs: 1000 })
    const { signal } = lease
    const next = watch(clock, theirs.locks.acquire('k', { ttlMs: 1000, waitMs: FOREVER }))
    await clock.advance(300)
    const sent = ours.backend.callsOf('renew').length
    clock.block(1600)
    // The very next statement of the work.
    expect(() => lease.assertValid()).toThrow(
      expect.objectContaining({ code: 'LEASE_LOST', reason: 'expired' }),
    )
    expect(signal.aborted).toBe(true)
    await clock.advance(2000)
    expect(ours.backend.callsOf('renew')).toHaveLength(sent)
    expect(next.state).toBe('resolved')
    expect(next.value!.fencingToken > lease.fencingToken).toBe(true)
    expect(await lease.release()).toBe('not-held')
    expect(next.value!.isHeld).toBe(true)
  })

  it('past the deadline is found by the first timers even if nobody looks', async () => {
    const { clock, engine } = openWorld()
    const { locks, backend } = engine()
    const lease = await locks.acquire('k', { ttlMs: 1000 })
    const { signal } = lease
    clock.block(1600)
    await clock.advance(0)
    expect(signal.reason).toMatchObject({ code: 'LEASE_LOST', reason: 'expired' })
    expect(backend.callsOf('renew')).toEqual([])
  })

  // B026: lateness alone was taken for a loss, and the process ended itself.
  // After a block timers run before sockets are read, and an answer that had long arrived was taken
  // for none: a good lock was undone, and a release that had happened was called unconfirmed.
  it('does not turn an answer that has arrived into a time-out', async () => {
    for (const ttlMs of [1000, 30_000]) {
      const { clock, engine } = openWorld()
      const { locks, backend, typesOf } = engine()
      const asking = gate()
      backend.next('tryAcquire', asking.fault)
      const trying = watch(clock, locks.tryAcquire('k', { ttlMs }))
      await clock.advance(1)
      await asking.arrive()
      // Past the time-out of the attempt, while the grant is worth something yet.
      clock.block(ttlMs === 1000 ? 780 : 2500)
      clock.after(1, () => void asking.answer())
      await clock.advance(10)
      expect([ttlMs, trying.state]).toEqual([ttlMs, 'resolved'])
      await trying.value?.renew()

      const ending = gate()
      backend.next('release', ending.fault)
      const releasing = watch(clock, trying.value!.release())
      await clock.advance(1)
      await ending.arrive()
      clock.block(2500)
      clock.after(1, () => void ending.answer())
      await clock.advance(10)
      expect(releasing.value).toBe('released')
      expect(typesOf('k').filter((type) => type !== 'renewed')).toEqual(['acquired', 'released'])
    }
  })

  it('within the lease is no loss: the late renewal succeeds', async () => {
    const { clock, engine } = openWorld()
    const { locks, typesOf } = engine()
    const lease = await locks.acquire('k', { ttlMs: 2000, renewEveryMs: 600 })
    await clock.advance(100)
    clock.block(1400)
    expect(() => lease.assertValid()).not.toThrow()
    await clock.advance(0)
    expect(typesOf('k')).toEqual(['acquired', 'renewed'])
    await clock.advance(60_000)
    expect(lease.isHeld).toBe(true)
    expect(typesOf('k')).not.toContain('lost')
  })
})

describe('clocks', () => {
  // B030: after a sleep of the machine a process believed in a lease that had long ended.
  it('a suspended machine finds its lease ended at once when it wakes', async () => {
    const { clock, engine } = openWorld()
    const { locks, backend } = engine()
    const lease = await locks.acquire('k', { ttlMs: 10_000 })
    const { signal } = lease
    await clock.advance(50)
    clock.suspend(60_000)
    expect(lease.isHeld).toBe(false)
    expect(signal.reason).toMatchObject({ reason: 'expired' })
    expect(() => lease.assertValid()).toThrow(expect.objectContaining({ code: 'LEASE_LOST' }))
    await clock.advance(20_000)
    expect(backend.callsOf('renew')).toEqual([])
  })

  it('a machine that was suspended while a renewal was under way does not get that time back', async () => {
    const { clock, engine } = openWorld()
    const { locks, backend } = engine()
    const lease = await locks.acquire('k', { ttlMs: 60_000, renew: false })
    const asking = gate()
    backend.next('renew', asking.fault)
    const renewing = watch(clock, lease.renew())
    await clock.advance(1)
    await asking.arrive()
    clock.suspend(20_000)
    await asking.answer()
    await clock.advance(1)
    expect(renewing.state).toBe('resolved')
    // The store has counted from before the sleep.
    expect(lease.remainingMs()).toBeLessThanOrEqual(lifeMs(60_000) - 20_000)
    await lease.release()
  })

  it('a suspended machine is told soon when nobody looks, however long the lease was', async () => {
    for (const renew of [true, false]) {
      const { clock, engine } = openWorld()
      const { locks } = engine()
      const lease = await locks.acquire('k', { ttlMs: 3_600_000, renew })
      const { signal } = lease
      await clock.advance(50)
      clock.suspend(7_200_000)
      await clock.advance(2000)
      expect([renew, signal.aborted]).toEqual([renew, true])
    }
  })

  // Tests of applications sent renewals that nobody could explain, on slow machines only.
  it('a clock of the caller’s own is the only one that counts', async () => {
    const clock = createVirtualClock()
    const locks = createLocks(memoryBackend(), { clock })
    let renewed = 0
    locks.on('renewed', () => {
      renewed += 1
    })
    const lease = await locks.acquire('k', { ttlMs: 30_000 })
    await new Promise((resolve) => setTimeout(resolve, 1100))
    expect(lease.isHeld).toBe(true)
    await clock.advance(2000)
    expect(lease.isHeld).toBe(true)
    expect(renewed).toBe(0)
    expect(lease.remainingMs()).toBe(lifeMs(30_000) - 2000)
    await lease.release()
  })

  it('a wall clock that steps back moves no deadline', async () => {
    const { clock, engine } = openWorld()
    const { locks } = engine()
    const lease = await locks.acquire('k', { ttlMs: 10_000, renew: false })
    const { signal } = lease
    clock.stepWall(-60_000)
    await clock.advance(lifeMs(10_000) - 1)
    expect(lease.isHeld).toBe(true)
    await clock.advance(1)
    expect(signal.aborted).toBe(true)
  })

  // A forward step may be a sleep that no other clock has shown: ask, and trust nothing more.
  it('a wall clock that steps forward makes the holder ask the store, and extends no trust', async () => {
    const { clock, store, engine } = openWorld()
    const { locks, backend } = engine()
    const lease = await locks.acquire('k', { ttlMs: 10_000 })
    await clock.advance(100)
    clock.stepWall(60_000)
    const restMs = lease.remainingMs()
    expect(restMs).toBe(lifeMs(10_000) - 100)
    expect(lease.isHeld).toBe(true)
    await clock.advance(0)
    expect(backend.callsOf('renew')).toHaveLength(1)
    expect(lease.isHeld).toBe(true)

    // Somebody else has it by now: the question finds out.
    const { signal } = lease
    await store.cancel('k', lease.owner)
    clock.stepWall(60_000)
    expect(lease.isHeld).toBe(true)
    await clock.advance(0)
    expect(signal.aborted).toBe(true)
  })
})
