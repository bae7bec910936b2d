import { describe, expect, it } from 'vitest'
import { BackendUnavailableError } from '../../src/core/errors.ts'
import { lifeMs } from '../../src/core/validity.ts'
import { seamsOf } from '../../src/testkit/virtual-clock.ts'
import {
  answering,
  delayed,
  type Fault,
  gate,
  lostReply,
  lostRequest,
  refusedWith,
} from '../support/faulty-backend.ts'
import { codeOf, openWorld, timersLeft, watch } from '../support/open-engine.ts'

const DOWN = refusedWith(new BackendUnavailableError('down', 'connection refused'))

describe('the watchdog', () => {
  // B029: the lock was dropped at the TTL although renewal was on.
  it('renews about every third of the TTL, from the option or the default, and holds throughout', async () => {
    for (const ttlMs of [100, 300, 3000, 30_000]) {
      for (const defaults of [{ ttlMs }, {}]) {
        const { clock, engine } = openWorld({ seed: ttlMs })
        const { locks, backend, told } = engine({ defaults })
        const lease = await locks.acquire('k', 'ttlMs' in defaults ? {} : { ttlMs })
        await clock.advance(20 * ttlMs)
        expect(lease.isHeld).toBe(true)
        const atMs = backend.callsOf('renew').map((call) => call.atMs)
        const gaps = atMs.slice(1).map((at, index) => at - (atMs[index] as number))
        expect(Math.max(...gaps)).toBeLessThanOrEqual(ttlMs / 3 + 1)
        expect(Math.min(...gaps)).toBeGreaterThanOrEqual(0.3 * ttlMs - 1)
        const renewed = told.filter(({ type }) => type === 'renewed')
        expect(renewed).toHaveLength(atMs.length)
        await lease.release()
      }
    }
  })

  // An interval that was asked for was quietly replaced by a third of the TTL.
  it('keeps to renewEveryMs as given, above a third of the TTL too', async () => {
    const { clock, engine } = openWorld({ jitter: 0 })
    const { locks, backend } = engine()
    const lease = await locks.acquire('k', { ttlMs: 10_000, renewEveryMs: 7000 })
    await clock.advance(21_000)
    expect(backend.callsOf('renew').map(({ atMs }) => atMs)).toEqual([8000, 15_000, 22_000])
    expect(lease.isHeld).toBe(true)
  })

  // The timing that was asked for was longer than what the store was willing to give.
  it('goes by what the store granted, not by what was asked for', async () => {
    const { clock, store, engine } = openWorld()
    const { locks, backend } = engine()
    const short: Fault = async (apply) => {
      const answer = (await apply()) as { kind: string; grant?: { ttlMs: number }; ttlMs?: number }
      if (answer.grant) return { ...answer, grant: { ...answer.grant, ttlMs: 10_000 } }
      return { ...answer, ttlMs: 10_000 }
    }
    backend.always('tryAcquire', short)
    backend.always('renew', short)
    const lease = await locks.acquire('k', { ttlMs: 30_000 })
    expect(lease.remainingMs()).toBe(lifeMs(10_000))
    await clock.advance(60_000)
    expect(lease.isHeld).toBe(true)
    await lease.release()
    expect(await store.inspect('k')).toBeNull()
  })

  const transient: [string, Fault][] = [
    ['a refusal by the store', DOWN],
    ['an unknown error', refusedWith(new Error('BUSY Redis is busy running a script'))],
    ['an error that is no error', refusedWith(Object.create(null))],
    ['a lost request', lostRequest],
    ['a lost reply', lostReply],
    ['an answer that makes no sense', answering(undefined)],
    ['an answer on another clock', answering({ kind: 'renewed', sentAtMs: 1e15, ttlMs: 3000 })],
    ['an answer that is no number', answering({ kind: 'renewed', sentAtMs: 0, ttlMs: Number.NaN })],
  ]
  for (const [what, fault] of transient) {
    // B024: one transient error during a renewal, and the holder stopped renewing.
    it(`goes on after ${what}, and keeps a lock that the store still gives it`, async () => {
      const { clock, engine } = openWorld()
      const { locks, backend, typesOf } = engine()
      const lease = await locks.acquire('k', { ttlMs: 3000 })
      backend.next('renew', fault)
      await clock.advance(1000)
      expect(typesOf('k')).not.toContain('renewed')
      await clock.advance(19_000)
      expect(lease.isHeld).toBe(true)
      expect(typesOf('k').filter((type) => type === 'renewal-failed')).toHaveLength(1)
      expect(typesOf('k')).not.toContain('lost')
      expect(lease.remainingMs()).toBeGreaterThan(1000)
    })
  }

  // The pause after a failure went by the TTL, and was longer than the own deadline.
  it('survives one failure with an own, shorter deadline too', async () => {
    for (const fault of [DOWN, lostReply, lostRequest]) {
      for (const own of [
        { ttlMs: 30_000, renewDeadlineMs: 3000, renewEveryMs: 1000 },
        { ttlMs: 15_000, renewDeadlineMs: 10_000, renewEveryMs: 2000 },
        { ttlMs: 86_400_000, renewDeadlineMs: 10_000 },
        { ttlMs: 300, renewDeadlineMs: 200 },
      ]) {
        const { clock, engine } = openWorld()
        const { locks, backend, typesOf } = engine()
        const lease = await locks.acquire('k', own)
        backend.next('renew', fault)
        await clock.advance(60_000)
        expect([own, lease.isHeld]).toEqual([own, true])
        expect(typesOf('k').filter((type) => type === 'renewal-failed')).toHaveLength(1)
      }
    }
  })

  // B024: the whole interval may be needed, and the retries must come sooner than the next renewal.
  it('tries again quickly, until the deadline and not beyond it', async () => {
    const { clock, engine } = openWorld()
    const { locks, backend, told } = engine()
    const lease = await locks.acquire('k', { ttlMs: 3000 })
    const grantedAtMs = clock.nowMs()
    backend.always('renew', DOWN)
    await clock.advance(60_000)
    const atMs = backend.callsOf('renew').map((call) => call.atMs - grantedAtMs)
    expect(atMs.length).toBeGreaterThanOrEqual(6)
    expect(atMs.at(-1)).toBeLessThan(lifeMs(3000))
    expect(told.at(-1)).toMatchObject({
      type: 'lost',
      reason: 'expired',
      atMs: grantedAtMs + lifeMs(3000),
    })
    expect(lease.isHeld).toBe(false)
  })

  // An answer that promises nothing new left the next try for after the deadline.
  it('asks again soon when the store confirms the owner but promises no new time', async () => {
    const { clock, engine } = openWorld()
    const { locks, backend } = engine()
    const lease = await locks.acquire('k', { ttlMs: 3000, renewEveryMs: 1600 })
    backend.next(
      'renew',
      ...[1, 2].map(() => answering({ kind: 'unchanged', sentAtMs: 0, ttlMs: 100 })),
    )
    await clock.advance(30_000)
    expect(lease.isHeld).toBe(true)
  })

  // B022, B023: stopping and starting the renewal were unordered, so now and then a released lock was
  // renewed for ever.
  it('sends nothing once release() has begun, whenever it begins', async () => {
    for (let step = 0; step < 400; step += 1) {
      const { clock, store, engine } = openWorld({ seed: step + 1 })
      const { locks, backend, typesOf } = engine()
      const seams = seamsOf(clock)
      backend.always('renew', delayed(seams, step % 7, step % 11))
      backend.always('release', delayed(seams, step % 5, step % 3))
      const lease = await locks.acquire('k', { ttlMs: 300, renewEveryMs: 20 })
      await clock.advance(15 + (step % 60))
      const released = watch(clock, lease.release())
      const sent = backend.callsOf('renew').length
      await clock.advance(2000)
      expect(backend.callsOf('renew')).toHaveLength(sent)
      // B019: a renewal that came after the release was told as a loss, or as a success.
      expect(released.value).toBe('released')
      expect(typesOf('k').at(-1)).toBe('released')
      expect(typesOf('k')).not.toContain('lost')
      expect(await store.inspect('k')).toBeNull()
      expect(clock.pendingCount).toBe(0)
    }
  })

  // B027: a task that hung kept the lock for ever, because the process lived.
  it('stops at maxHoldMs: the signal fires, the event names the holder, the name is free one TTL later', async () => {
    const { clock, engine } = openWorld()
    const ours = engine()
    const theirs = engine()
    const beganAtMs = clock.nowMs()
    let signal: AbortSignal | null = null
    const hung = watch(
      clock,
      ours.locks.using('k', { ttlMs: 1000, maxHoldMs: 3000 }, async (lease) => {
        signal = lease.signal
        await new Promise(() => {})
      }),
    )
    const next = watch(clock, theirs.locks.acquire('k', { ttlMs: 1000, waitMs: 60_000 }))
    await clock.advance(2999)
    expect(signal!.aborted).toBe(false)
    await clock.advance(1)
    expect(signal!.reason).toMatchObject({ code: 'LEASE_LOST', reason: 'max-hold', lockName: 'k' })
    const lost = ours.told.at(-1)
    expect(lost).toMatchObject({ type: 'lost', reason: 'max-hold', atMs: beganAtMs + 3000 })
    await clock.advance(1300)
    expect(next.state).toBe('resolved')
    expect(next.value!.fencingToken > lost!.fencingToken!).toBe(true)
    expect(hung.state).toBe('pending')
    expect(ours.backend.callsOf('renew').at(-1)!.atMs).toBeLessThan(beganAtMs + 3000)
  })

  it('stops at maxHoldMs with a renewal in flight too, whose late answer revives nothing', async () => {
    const { clock, engine } = openWorld()
    const { locks, backend, typesOf } = engine()
    const lease = await locks.acquire('k', { ttlMs: 1000, maxHoldMs: 1200, renewEveryMs: 500 })
    const late = gate()
    await clock.advance(900)
    backend.always('renew', late.fault)
    await clock.advance(290)
    expect(lease.isHeld).toBe(true)
    await clock.advance(10)
    expect(lease.isHeld).toBe(false)
    await late.answer()
    await clock.advance(5000)
    expect(lease.isHeld).toBe(false)
    expect(typesOf('k').filter((type) => type === 'lost')).toHaveLength(1)
    expect(typesOf('k').at(-1)).toBe('lost')
    expect(await codeOf(lease.renew())).toBe('LEASE_LOST')
    expect(await timersLeft(clock)).toBe(0)
  })

  it('is left out with renew: false, and the lease ends by itself', async () => {
    const { clock, store, engine } = openWorld()
    const { locks, backend, typesOf } = engine()
    await locks.acquire('k', { ttlMs: 1000, renew: false })
    await clock.advance(10_000)
    expect(backend.callsOf('renew')).toEqual([])
    expect(typesOf('k')).toEqual(['acquired', 'lost'])
    expect(await store.inspect('k')).toBeNull()
  })

  // A renewal by hand and one of the watchdog's crossed, and the slower one won.
  it('and a renewal by hand may cross: the deadline is the later of what was promised', async () => {
    const { clock, engine } = openWorld()
    const { locks, backend } = engine()
    const lease = await locks.acquire('k', { ttlMs: 3000, renewEveryMs: 1000 })
    const slow = gate()
    backend.next('renew', slow.fault)
    await clock.advance(1000)
    await slow.arrive()
    const byHand = watch(clock, lease.renew(60_000))
    await clock.advance(1)
    expect(byHand.state).toBe('resolved')
    const restMs = lease.remainingMs()
    expect(restMs).toBeGreaterThan(55_000)
    await slow.answer()
    await clock.advance(0)
    expect(lease.remainingMs()).toBe(restMs)
    await clock.advance(200_000)
    expect(lease.isHeld).toBe(true)
    // One plan, not two.
    expect(backend.callsOf('renew').length).toBeLessThan(15)
    await lease.release()
    expect(await timersLeft(clock)).toBe(0)
  })
})
