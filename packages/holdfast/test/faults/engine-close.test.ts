import { describe, expect, it } from 'vitest'
import type { Lease } from '../../src/core/lease.ts'
import { gate, lostReply, lostRequest } from '../support/faulty-backend.ts'
import { codeOf, openWorld, timersLeft, watch } from '../support/open-engine.ts'

const TTL = { ttlMs: 1000 }

describe('close()', () => {
  // Shutting down ended the waiting of everybody but the one to whom a grant was just being passed:
  // it went on asking for ever, and kept the process alive.
  it('ends the wait of a contender to whom a grant is on its way, also when the reply is lost', async () => {
    for (const fault of [lostReply, lostRequest]) {
      const { clock, store, engine } = openWorld()
      const { locks, backend } = engine()
      const holder = await locks.acquire('k', TTL)
      const waitMs = Number.POSITIVE_INFINITY
      const next = watch(clock, locks.acquire('k', { ...TTL, waitMs }))
      backend.next('handOver', fault)
      holder.release().catch((error) => expect(error).toMatchObject({ code: 'OUTCOME_UNKNOWN' }))
      await clock.advance(1)
      const closed = watch(clock, locks.close())
      await clock.advance(1)
      expect(next.state).toBe('rejected')
      expect(next.error).toMatchObject({ code: 'CLOSED' })
      await clock.advance(5000)
      expect(closed.state).toBe('resolved')
      expect(await store.inspect('k')).toBeNull()
      expect(await timersLeft(clock)).toBe(0)
    }
  })

  // The client was ended right after close(), and a release that was still on its way went with it:
  // the name stayed taken for a whole TTL.
  it('waits for a release that its caller did not wait for', async () => {
    const { clock, store, engine } = openWorld()
    const { locks, backend } = engine()
    const lease = await locks.acquire('k', TTL)
    const slow = gate()
    backend.next('release', slow.fault)
    const released = watch(clock, lease.release())
    const closed = watch(clock, locks.close())
    await clock.advance(100)
    expect(closed.state).toBe('pending')
    await slow.answer()
    await clock.advance(1)
    expect(released.value).toBe('released')
    expect(closed.state).toBe('resolved')
    expect(await store.inspect('k')).toBeNull()
  })

  // A single attempt that was granted after close() left a lock that nobody held.
  it('ends attempts that are in flight, and undoes what they got', async () => {
    const { clock, store, engine } = openWorld()
    const { locks, backend, told } = engine()
    const slow = [gate(), gate(), gate()]
    backend.next('tryAcquire', ...slow.map(({ fault }) => fault))
    const calls = [
      watch(clock, locks.tryAcquire('a', TTL)),
      watch(clock, locks.acquire('b', { ...TTL, waitMs: 0 })),
      watch(clock, locks.acquire('c', TTL)),
    ]
    await clock.advance(1)
    for (const one of slow) await one.arrive()
    const closed = watch(clock, locks.close())
    await clock.advance(1)
    for (const call of calls) expect(call.error).toMatchObject({ code: 'CLOSED' })
    expect(closed.state).toBe('resolved')
    for (const one of slow) await one.answer()
    await clock.advance(1)
    for (const name of ['a', 'b', 'c']) expect(await store.inspect(name)).toBeNull()
    expect(told.map(({ type }) => type)).not.toContain('acquired')
    expect(await timersLeft(clock)).toBe(0)
  })

  // An operator's take-over that was answered after close() gave a lease that nothing would end.
  it('gives nobody a lease by a revoke that is answered later', async () => {
    const { clock, store, engine } = openWorld()
    const { locks, backend } = engine()
    const other = engine()
    const held = await other.locks.acquire('k', TTL)
    const slow = gate()
    backend.next('revoke', slow.fault)
    const { fencingToken } = held
    const revoking = watch(clock, locks.revoke('k', { fencingToken, reason: 'stuck' }))
    await clock.advance(1)
    const closed = watch(clock, locks.close())
    await clock.advance(1)
    expect(closed.state).toBe('pending')
    await slow.answer()
    await clock.advance(1)
    expect(revoking.error).toMatchObject({ code: 'CLOSED' })
    await clock.advance(10)
    expect(closed.state).toBe('resolved')
    expect(await store.inspect('k')).toBeNull()
  })

  // Two leases of one name can stand beside each other in one process, when an operator took the
  // first one over: only the younger was told of the end, and the older one went on renewing.
  it('tells every holder, two of one name too', async () => {
    const { clock, engine } = openWorld()
    const { locks, backend } = engine()
    const first = await locks.acquire('k', { ttlMs: 30_000 })
    const { fencingToken } = first
    // Another process took it over and let go, and the holder has not heard of it yet.
    await engine().backend.cancel('k', first.owner)
    const second = (await locks.tryAcquire('k', { ttlMs: 30_000 }))!
    expect(second.fencingToken > fencingToken).toBe(true)
    expect([first.isHeld, second.isHeld]).toEqual([true, true])
    await locks.close()
    expect([first.isHeld, second.isHeld]).toEqual([false, false])
    expect([first.signal.aborted, second.signal.aborted]).toEqual([true, true])
    const sent = backend.callsOf('renew').length
    await clock.advance(60_000)
    expect(backend.callsOf('renew')).toHaveLength(sent)
  })

  // A store that hangs at the end must not keep a process from ending.
  it('ends within five seconds, whatever hangs', async () => {
    for (const method of ['release', 'handOver', 'cancel', 'close'] as const) {
      const { clock, engine } = openWorld()
      const { locks, backend } = engine()
      const lease = await locks.acquire('k', TTL)
      watch(clock, locks.acquire('k', TTL))
      backend.always(method, lostRequest)
      backend.next('tryAcquire', lostRequest)
      watch(clock, locks.tryAcquire('other', TTL))
      const closed = watch(clock, locks.close())
      await clock.advance(5000)
      expect([method, closed.state]).toEqual([method, 'resolved'])
      expect(lease.isHeld).toBe(false)
      expect(await codeOf(locks.acquire('k'))).toBe('CLOSED')
      expect(await timersLeft(clock)).toBe(0)
    }
  })

  // B037: the end that consumers rely on was not told in this one case.
  it('tells each holder once, with the reason session-ended, by event and by signal', async () => {
    const { clock, engine } = openWorld()
    const { locks, told } = engine()
    const leases: Lease[] = []
    for (const name of ['a', 'b', 'c']) leases.push(await locks.acquire(name, TTL))
    const signals = leases.map(({ signal }) => signal)
    await Promise.all([locks.close(), locks.close(), locks[Symbol.asyncDispose]()])
    for (const [index, lease] of leases.entries()) {
      expect(signals[index]?.reason).toMatchObject({ code: 'LEASE_LOST', reason: 'session-ended' })
      const ends = told.filter(
        ({ type, lockName }) =>
          lockName === lease.lockName && (type === 'lost' || type === 'released'),
      )
      expect(ends).toMatchObject([{ type: 'lost', reason: 'session-ended' }])
      expect(await lease.release()).toBe('not-held')
    }
    expect(await timersLeft(clock)).toBe(0)
  })

  // Two ways down at once: a signal handler, and whoever was told by the first.
  it('called again by whoever it tells is one close', async () => {
    const { clock, engine } = openWorld()
    const { locks, backend } = engine()
    await locks.acquire('k', TTL)
    const again: Promise<void>[] = []
    locks.on('lost', () => {
      again.push(locks.close())
    })
    const first = locks.close()
    await first
    expect(again).toEqual([first])
    expect(await codeOf(again[0] as Promise<void>)).toBe('resolved')
    expect(backend.callsOf('close')).toHaveLength(1)
    expect(await timersLeft(clock)).toBe(0)
  })

  // Closing from inside the work it ends must not wait for that work.
  it('called inside using ends it with the loss', async () => {
    const { engine } = openWorld()
    const { locks } = engine()
    const error = await locks
      .using('k', async (lease) => {
        await locks.close()
        lease.assertValid()
      })
      .catch((caught: unknown) => caught)
    expect(error).toMatchObject({ code: 'LEASE_LOST', reason: 'session-ended' })
  })
})
