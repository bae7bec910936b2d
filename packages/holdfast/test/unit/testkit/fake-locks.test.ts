import { describe, expect, it } from 'vitest'
import { InvalidArgumentError, LeaseLostError, LockHeldError } from '../../../src/core/errors.ts'
import type { LockEvents } from '../../../src/core/events.ts'
import type { Lease } from '../../../src/core/lease.ts'
import { systemSeams } from '../../../src/core/seams.ts'
import { createVirtualClock, fakeLocks, loseLease } from '../../../src/testkit/index.ts'

describe('fake locks', () => {
  // A fake that grants everything would let an application pass that never handles "busy".
  it('exclude like real ones, with real errors', async () => {
    const locks = fakeLocks()
    const lease = await locks.acquire('order:7')
    expect(await locks.tryAcquire('order:7')).toBeNull()
    await expect(locks.acquire('order:7', { waitMs: 0 })).rejects.toBeInstanceOf(LockHeldError)
    expect(await lease.release()).toBe('released')
    expect(await locks.using('order:7', async ({ isHeld }) => isHeld)).toBe(true)
    await expect(locks.acquire('order:7', { ttlMs: 1 })).rejects.toBeInstanceOf(
      InvalidArgumentError,
    )
    await locks.close()
  })

  // A job of an hour must be testable in milliseconds, its renewals included.
  it('renew over an hour of virtual time, and lose a lease that is not renewed', async () => {
    const clock = createVirtualClock()
    const locks = fakeLocks({ clock })
    let renewals = 0
    locks.on('renewed', () => {
      renewals += 1
    })
    const long = await locks.acquire('long')
    const short = await locks.acquire('short', { renew: false })
    await clock.advance(3_600_000)
    long.assertValid()
    expect(renewals).toBeGreaterThan(300)
    expect(short.isHeld).toBe(false)
    expect(short.signal.reason).toMatchObject({ code: 'LEASE_LOST', reason: 'expired' })
    expect(await locks.tryAcquire('short')).not.toBeNull()
    expect(await locks.tryAcquire('long')).toBeNull()
    await locks.close()
    await clock.advance(60_000)
    expect(clock.pendingCount).toBe(0)
  })

  // A laptop that slept: the holder finds out by the boot clock, before any timer fires.
  it('notice a suspend of a virtual clock', async () => {
    const clock = createVirtualClock()
    const locks = fakeLocks({ clock })
    const lease = await locks.acquire('a')
    clock.suspend(60_000)
    expect(() => lease.assertValid()).toThrow(LeaseLostError)
    await lease.release()
  })

  it('also take a clock that the application made itself', async () => {
    let aheadMs = 0
    const clock = {
      nowMs: () => systemSeams.nowMs() + aheadMs,
      after: (delayMs: number, fn: () => void) => systemSeams.after(delayMs, fn),
    }
    const locks = fakeLocks({ clock })
    const lease = await locks.acquire('a', { renew: false })
    aheadMs = 60_000
    expect(lease.isHeld).toBe(false)
    expect(await locks.tryAcquire('a')).not.toBeNull()
    await locks.close()
  })

  // Two tests of one file must not find each other's locks.
  it('share nothing with each other', async () => {
    const [one, other] = [fakeLocks(), fakeLocks()]
    await one.acquire('a')
    expect(await other.tryAcquire('a')).not.toBeNull()
    await Promise.all([one.close(), other.close()])
  })
})

describe('loseLease', () => {
  // The path that no test of an application ever took: the lock is lost in the middle of the work.
  it('loses a lease with the reason given, as if it had happened', async () => {
    const locks = fakeLocks()
    const lost: LockEvents['lost'][] = []
    locks.on('lost', (event) => lost.push(event))
    for (const reason of [
      'expired',
      'superseded',
      'revoked',
      'session-ended',
      'max-hold',
    ] as const) {
      const lease = await locks.acquire(reason)
      const { signal } = lease
      expect(loseLease(lease, reason)).toBe(true)
      expect(signal.aborted).toBe(true)
      expect(signal.reason).toBeInstanceOf(LeaseLostError)
      expect(signal.reason.reason).toBe(reason)
      expect(() => lease.assertValid()).toThrow(LeaseLostError)
      expect(lease.isHeld).toBe(false)
      expect(await lease.release()).toBe('not-held')
    }
    expect(lost.map(({ reason }) => reason)).toHaveLength(5)
    await locks.close()
  })

  it('makes using() reject, and tells what its function did all the same', async () => {
    const locks = fakeLocks()
    const run = locks.using('a', async (lease) => {
      loseLease(lease, 'revoked')
      return 'done'
    })
    const error = await run.catch((reason: unknown) => reason)
    expect(error).toBeInstanceOf(LeaseLostError)
    expect(error).toMatchObject({ settled: { status: 'fulfilled', value: 'done' } })
    expect(await locks.inspect('a')).toBeNull()
    await locks.close()
  })

  // A test that loses the wrong object, or misspells the reason, would pass without testing anything.
  it('changes nothing for a lease that is over, and refuses what is no lease', async () => {
    const locks = fakeLocks()
    const lease = await locks.acquire('a')
    await lease.release()
    expect(loseLease(lease, 'expired')).toBe(false)
    const held = await locks.acquire('b')
    expect(() => loseLease(held, 'stolen' as never)).toThrow(InvalidArgumentError)
    expect(() => loseLease({ ...held, isHeld: true } as Lease, 'expired')).toThrow(
      InvalidArgumentError,
    )
    expect(() => loseLease(undefined as never, 'expired')).toThrow(InvalidArgumentError)
    expect(held.isHeld).toBe(true)
    await locks.close()
  })
})
