import { describe, expect, it } from 'vitest'
import { lifeMs } from '../../src/core/validity.ts'
import { seamsOf } from '../../src/testkit/virtual-clock.ts'
import { delayed, gate } from '../support/faulty-backend.ts'
import { codeOf, openWorld, watch } from '../support/open-engine.ts'

describe('validity', () => {
  // B001: the expiry was counted from the first attempt, so who had waited for a busy lock was handed
  // one whose expiry lay in the past.
  it('counts from the attempt that won, however long its contender waited', async () => {
    const { clock, store, engine } = openWorld({ seed: 3 })
    const ours = engine()
    const theirs = engine({ without: ['wakeUp'] })
    await ours.locks.acquire('k', { ttlMs: 1200, renew: false })
    const waited = watch(clock, theirs.locks.acquire('k', { ttlMs: 1000, renew: false }))
    await clock.advance(5000)
    expect(waited.state).toBe('resolved')
    const lease = waited.value!
    const grantedAtMs = waited.atMs!
    // It won as soon as the other's entry was gone, and had all of its life then.
    expect(grantedAtMs).toBeGreaterThanOrEqual(clock.nowMs() - 5000 + 1200)
    const won = theirs.backend.callsOf('tryAcquire').at(-1)!
    expect(won.atMs).toBe(grantedAtMs)
    const lost = theirs.told.find(({ type }) => type === 'lost')
    expect(lost?.atMs).toBe(won.atMs + lifeMs(1000))
    expect(lease.isHeld).toBe(false)
    expect(await store.inspect('k')).toBeNull()
  })

  // The same accident from the other side: validity above what the store keeps means two holders.
  it('never exceeds what the store keeps, after an acquire and after each renewal', async () => {
    const { clock, store, engine } = openWorld()
    const { locks, backend } = engine()
    const seams = seamsOf(clock)
    backend.always('tryAcquire', delayed(seams, 90, 120))
    backend.always('renew', delayed(seams, 20, 70))
    const acquiring = watch(clock, locks.acquire('k', { ttlMs: 1000 }))
    await clock.advance(400)
    const lease = acquiring.value!
    for (let step = 0; step < 500; step += 1) {
      const { remainingMs } = (await store.inspect('k'))!
      expect(lease.remainingMs()).toBeGreaterThan(0)
      expect(lease.remainingMs() + 60).toBeLessThan(remainingMs!)
      await clock.advance(7)
    }
  })

  // A lock with no validity left was returned as held, and its first extension failed.
  it('is never handed out when it is spent: the grant is undone, and the attempt counts as failed', async () => {
    const { clock, store, engine } = openWorld()
    const { locks, backend, told } = engine()
    const slow = gate()
    backend.next('tryAcquire', slow.fault)
    const once = watch(clock, locks.tryAcquire('k', { ttlMs: 300, renew: false }))
    await clock.advance(1)
    await slow.arrive()
    // 245 ms of life, of which 30 ms must be left. Blocked, because the attempt has a timer, too.
    clock.block(216)
    await slow.answer()
    await clock.advance(10)
    expect(once.state).toBe('rejected')
    expect(once.error).toMatchObject({ code: 'OUTCOME_UNKNOWN' })
    expect(await store.inspect('k')).toBeNull()
    expect(told.map(({ type }) => type)).not.toContain('acquired')
  })

  // The application's own, shorter deadline makes a lock worthless sooner than its TTL does.
  it('is measured by renewDeadlineMs too before a lock is handed out', async () => {
    const { clock, engine } = openWorld()
    const { locks, backend, typesOf } = engine()
    const options = { ttlMs: 30_000, renewDeadlineMs: 300, renewEveryMs: 100, waitMs: 5000 }
    backend.next('tryAcquire', delayed(seamsOf(clock), 0, 500))
    const acquiring = watch(clock, locks.acquire('k', options))
    await clock.advance(1000)
    expect(acquiring.state).toBe('resolved')
    expect(acquiring.value?.isHeld).toBe(true)
    expect(typesOf('k').filter((type) => type === 'lost')).toEqual([])
    // The first attempt was undone, the second one won.
    expect(backend.callsOf('tryAcquire')).toHaveLength(2)
  })
})

describe('renewal by hand', () => {
  // B003: extending gave a new object, and the old one went stale in the caller's hand.
  it('keeps the one lease object current, as often as it is renewed', async () => {
    const { clock, engine } = openWorld()
    const { locks } = engine()
    const lease = await locks.acquire('k', { ttlMs: 500, renew: false })
    const { fencingToken, owner, signal } = lease
    for (let round = 0; round < 5; round += 1) {
      await clock.advance(300)
      await lease.renew(500)
      expect(lease.remainingMs()).toBe(lifeMs(500))
      expect(lease).toMatchObject({ fencingToken, owner, isHeld: true })
    }
    expect(signal.aborted).toBe(false)
    await clock.advance(lifeMs(500) - 1)
    expect(lease.isHeld).toBe(true)
    await clock.advance(1)
    expect(signal.aborted).toBe(true)
  })

  // B004: "extend by n" was read as "add n", and a heart-beat let the lock live for hours.
  it('sets the time that is left and never adds to it', async () => {
    const { store, engine } = openWorld()
    const { locks } = engine()
    const lease = await locks.acquire('k', { ttlMs: 1000, renew: false })
    for (let count = 0; count < 10; count += 1) await lease.renew(1000)
    expect((await store.inspect('k'))?.remainingMs).toBe(1000)
    expect(lease.remainingMs()).toBe(lifeMs(1000))
  })

  // A shorter TTL asked for by hand must not take back what was promised to others who still work.
  it('with a shorter TTL changes the pace from then on and takes nothing back', async () => {
    const { clock, store, engine } = openWorld()
    const { locks, backend } = engine()
    const lease = await locks.acquire('k', { ttlMs: 30_000 })
    await lease.renew(300)
    expect((await store.inspect('k'))?.remainingMs).toBe(30_000)
    expect(lease.remainingMs()).toBe(lifeMs(30_000))
    await clock.advance(1000)
    const renewals = backend.callsOf('renew')
    expect(renewals.length).toBeGreaterThanOrEqual(9)
    expect(renewals.every(({ ttlMs }) => ttlMs === 300)).toBe(true)
    await lease.release()
    expect(await store.inspect('k')).toBeNull()
  })

  // A plan made for a short TTL but kept for a long one let a lease run out between two renewals.
  it('with any TTL keeps the watchdog within the deadline, the own renewDeadlineMs included', async () => {
    for (const ttlMs of [300, 2000, 60_000, 3_600_000, 86_400_000]) {
      const { clock, engine } = openWorld()
      const { locks, typesOf } = engine()
      const lease = await locks.acquire('k', { ttlMs: 30_000, renewDeadlineMs: 27_000 })
      await lease.renew(ttlMs)
      await clock.advance(120_000)
      expect([ttlMs, lease.isHeld]).toEqual([ttlMs, true])
      expect(typesOf('k')).not.toContain('lost')
      await lease.release()
    }
  })
})

describe('durations', () => {
  // B005: whole seconds inside the library ended short locks up to a second early.
  it('are kept to the millisecond from the option to the store', async () => {
    const { clock, store, engine } = openWorld()
    const { locks } = engine()
    const lease = await locks.acquire('k', { ttlMs: 250, renew: false })
    await clock.advance(150)
    expect(await store.inspect('k')).toMatchObject({ remainingMs: 100 })
    expect(lease.remainingMs()).toBe(lifeMs(250) - 150)
    await clock.advance(99)
    expect(await locks.tryAcquire('k')).toBeNull()
    await clock.advance(1)
    expect(await locks.tryAcquire('k')).not.toBeNull()
  })

  // B012: a wait longer than the lease was refused, as if the two had to fit into each other.
  it('of waiting and of holding are independent', async () => {
    const { clock, engine } = openWorld()
    const ours = engine()
    const theirs = engine()
    const holder = await ours.locks.acquire('k', { ttlMs: 5000 })
    const waiting = watch(clock, theirs.locks.acquire('k', { ttlMs: 5000, waitMs: 60_000 }))
    await clock.advance(12_000)
    expect(waiting.state).toBe('pending')
    await holder.release()
    await clock.advance(50)
    expect(waiting.state).toBe('resolved')
    expect(await codeOf(theirs.locks.acquire('k', { ttlMs: 5000, waitMs: 0 }))).toBe('LOCK_HELD')
  })
})
