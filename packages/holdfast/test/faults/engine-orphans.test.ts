import { getEventListeners } from 'node:events'
import { describe, expect, it } from 'vitest'
import { BackendUnavailableError, OutcomeUnknownError } from '../../src/core/errors.ts'
import { seamsOf } from '../../src/testkit/virtual-clock.ts'
import {
  answering,
  appliedButHears,
  delayed,
  gate,
  lostReply,
  lostRequest,
  refusedWith,
} from '../support/faulty-backend.ts'
import { codeOf, openWorld, timersLeft, watch } from '../support/open-engine.ts'

const TTL = { ttlMs: 1000 }

describe('waiting ends', () => {
  // B038: the deadline was looked at between attempts only, so a limit of 100 ms took a second, and
  // sometimes gave a lock that nobody wanted any more.
  it('at its own deadline, not at the next attempt, and a grant that comes later is undone', async () => {
    const { clock, store, engine } = openWorld()
    const ours = engine()
    const theirs = engine({ without: ['wakeUp'] })
    const holder = await ours.locks.acquire('k', { ttlMs: 900, renew: false })
    const beganAtMs = clock.nowMs()
    const refused = watch(clock, theirs.locks.acquire('k', { ...TTL, waitMs: 100 }))
    await clock.advance(5000)
    expect(refused).toMatchObject({ state: 'rejected', atMs: beganAtMs + 100 })
    expect(refused.error).toMatchObject({ code: 'LOCK_HELD', waitedMs: 100 })
    expect(holder.isHeld).toBe(false)

    theirs.backend.next('tryAcquire', delayed(seamsOf(clock), 60, 60))
    const late = watch(clock, theirs.locks.acquire('k', { ...TTL, waitMs: 100 }))
    await clock.advance(100)
    expect(late.error).toMatchObject({ code: 'OUTCOME_UNKNOWN' })
    await clock.advance(50)
    expect(await store.inspect('k')).toBeNull()
    expect(theirs.told.map(({ type }) => type)).not.toContain('acquired')
    expect(await timersLeft(clock)).toBe(0)
  })

  // B040: an aborted waiter woke at its next poll.
  it('at once when it is aborted, with the reason itself', async () => {
    const { clock, engine } = openWorld()
    const ours = engine()
    const theirs = engine()
    await ours.locks.acquire('k', { ttlMs: 60_000 })
    for (const reason of [new Error('mine'), 'text', undefined]) {
      const aborter = new AbortController()
      const { signal } = aborter
      const waiting = watch(clock, theirs.locks.acquire('k', { ...TTL, signal }))
      await clock.advance(333)
      aborter.abort(reason)
      await clock.advance(0)
      expect(waiting).toMatchObject({ state: 'rejected', atMs: clock.nowMs() })
      expect(waiting.error).toBe(signal.reason)
      expect(getEventListeners(signal, 'abort')).toHaveLength(0)
    }
  })
})

describe('an abort', () => {
  // B040: nobody could say what an abort does that comes at the same moment as the grant.
  it('before the call rejects and sends nothing', async () => {
    const { engine } = openWorld()
    const { locks, backend } = engine()
    const signal = AbortSignal.abort('early')
    let ran = false
    const fn = async (): Promise<void> => {
      ran = true
    }
    expect(await codeOf(locks.acquire('k', { signal }))).toBe('early')
    expect(await codeOf(locks.tryAcquire('k', { signal }))).toBe('early')
    expect(await codeOf(locks.using('k', { signal }, fn))).toBe('early')
    expect(ran).toBe(false)
    expect(backend.calls).toEqual([])
  })

  for (const waitMs of [0, 5000]) {
    // In the tick of the grant, at every distance from the answer that a promise can have.
    it(`in the tick of the grant either rejects and leaves no key, or comes too late (waitMs ${waitMs})`, async () => {
      const seen = new Set<string>()
      for (let distance = 0; distance < 24; distance += 1) {
        const { clock, store, engine } = openWorld()
        const { locks, backend, told } = engine()
        const asking = gate()
        backend.next('tryAcquire', asking.fault)
        const aborter = new AbortController()
        const { signal } = aborter
        let ran = 0
        const using = watch(
          clock,
          locks.using('k', { ...TTL, waitMs, signal }, async (lease) => {
            expect(signal.aborted).toBe(false)
            ran += 1
            await new Promise<void>((resolve) => clock.after(10, resolve))
            return lease.fencingToken
          }),
        )
        await clock.advance(1)
        const answered = asking.answer()
        for (let step = 0; step < distance; step += 1) await Promise.resolve()
        aborter.abort('left')
        await answered
        await clock.advance(11)
        expect(await store.inspect('k')).toBeNull()
        if (using.state === 'rejected') expect(using.error).toBe('left')
        expect(ran).toBe(using.state === 'resolved' ? 1 : 0)
        seen.add(using.state)
        const types = told.map(({ type }) => type)
        const begun = types.filter((type) => type === 'acquired').length
        const ended = types.filter((type) => type === 'released' || type === 'lost').length
        expect(ended).toBe(begun)
        expect(await timersLeft(clock)).toBe(0)
      }
      // Both were met, so the distances span the moment of the grant.
      expect([...seen].sort()).toEqual(['rejected', 'resolved'])
    })
  }

  // B039: the release ran with the caller's own signal, which was aborted, so the key stayed.
  it('after the grant changes nothing, and the release still happens', async () => {
    const { clock, store, engine } = openWorld()
    const { locks } = engine()
    const aborter = new AbortController()
    const { signal } = aborter
    const value = await locks.using('k', { ttlMs: 30_000, signal }, async (lease) => {
      expect(getEventListeners(signal, 'abort')).toHaveLength(0)
      aborter.abort('stop')
      await clock.advance(20_000)
      expect(lease.signal.aborted).toBe(false)
      return lease.isHeld
    })
    expect(value).toBe(true)
    expect(await store.inspect('k')).toBeNull()
  })

  it('of an attempt in flight undoes what the store may have done, also when it answers later', async () => {
    for (const fault of [lostReply, lostRequest, null]) {
      const { clock, store, engine } = openWorld()
      const { locks, backend, told } = engine()
      const late = gate()
      backend.next('tryAcquire', fault ?? late.fault)
      const aborter = new AbortController()
      const trying = watch(clock, locks.tryAcquire('k', { ...TTL, signal: aborter.signal }))
      await clock.advance(3)
      if (fault === null) await late.arrive()
      aborter.abort('left')
      await clock.advance(1)
      expect(trying.error).toBe('left')
      expect(await store.inspect('k')).toBeNull()
      if (fault === null) await late.answer()
      await clock.advance(1500)
      expect(await store.inspect('k')).toBeNull()
      expect(backend.callsOf('renew')).toEqual([])
      expect(told.map(({ type }) => type)).toContain('cancelled')
      expect(await timersLeft(clock)).toBe(0)
    }
  })
})

describe('an attempt without an answer', () => {
  // B042: a client's second attempt was blocked by what its own first one had left in the store.
  it('does not stand in the way of the next attempt of the same call', async () => {
    for (const fault of [lostReply, appliedButHears(new Error('socket closed'))]) {
      const { clock, store, engine } = openWorld()
      const { locks, backend } = engine({ without: ['wakeUp'] })
      backend.next('tryAcquire', fault)
      const acquiring = watch(clock, locks.acquire('k', { ttlMs: 20_000, waitMs: 5000 }))
      await clock.advance(2200)
      expect(acquiring.state).toBe('resolved')
      const [first, second] = backend.callsOf('tryAcquire')
      expect(first?.owner).not.toBe(second?.owner)
      expect(backend.callsOf('cancel').map(({ owner }) => owner)).toContain(first?.owner)
      await acquiring.value?.release()
      expect(await store.inspect('k')).toBeNull()
    }
  })

  // A cancel that got lost itself left the key for its whole TTL.
  it('is undone again and again until the store confirms it', async () => {
    const { clock, store, engine } = openWorld()
    const { locks, backend, told } = engine()
    const down = new BackendUnavailableError('down', 'connection refused')
    backend.next('tryAcquire', appliedButHears(new OutcomeUnknownError('socket closed')))
    backend.next('cancel', lostRequest, refusedWith(down), refusedWith(new Error('?')), lostReply)
    expect(await codeOf(locks.tryAcquire('k', { ttlMs: 60_000 }))).toBe('OUTCOME_UNKNOWN')
    expect(await store.inspect('k')).not.toBeNull()
    await clock.advance(8000)
    expect(await store.inspect('k')).toBeNull()
    expect(backend.callsOf('cancel')).toHaveLength(5)
    expect(told.filter(({ type }) => type === 'cancelled')).toHaveLength(1)
    expect(await timersLeft(clock)).toBe(0)
  })

  // The undo was confirmed, and the request it was for arrived after all: through a proxy, or after
  // the store had forgotten the undo.
  it('is undone once more when its grant arrives although the undo was confirmed', async () => {
    const { clock, store, engine } = openWorld()
    const { locks, backend } = engine()
    const late = gate()
    backend.next('tryAcquire', late.fault)
    backend.next('cancel', answering(undefined))
    const trying = watch(clock, locks.tryAcquire('k', { ttlMs: 60_000 }))
    await clock.advance(5000)
    expect(trying.error).toMatchObject({ code: 'OUTCOME_UNKNOWN' })
    expect(backend.callsOf('cancel')).toHaveLength(1)
    await late.answer()
    await clock.advance(1)
    expect(backend.callsOf('cancel')).toHaveLength(2)
    expect(await store.inspect('k')).toBeNull()
  })

  // B054: any error of the lock call was read as "the store is down", and the work ran without a
  // lock. Only a store that says so itself, before anything was applied, may be called unavailable.
  it('is never called unavailable: only a store that refuses the work is', async () => {
    const { clock, engine } = openWorld()
    const ours = engine()
    const theirs = engine()
    await ours.locks.acquire('busy', { ttlMs: 60_000 })
    const runsWithoutLock = async (call: Promise<unknown>): Promise<boolean> => {
      const outcome = watch(clock, call)
      await clock.advance(3000)
      return outcome.error instanceof BackendUnavailableError
    }
    const down = refusedWith(new BackendUnavailableError('down', 'connection refused'))
    const { locks, backend } = theirs
    for (const waitMs of [0, 150, 2500]) {
      backend.always('tryAcquire', null)
      expect(await runsWithoutLock(locks.acquire('busy', { ...TTL, waitMs }))).toBe(false)
      for (const fault of [lostRequest, lostReply, refusedWith(new Error('ECONNRESET'))]) {
        backend.always('tryAcquire', fault)
        const calls = ['a', 'b', 'b', 'b'].map((name) =>
          runsWithoutLock(locks.acquire(name, { ...TTL, waitMs })),
        )
        expect(await Promise.all(calls)).toEqual([false, false, false, false])
      }
      backend.always('tryAcquire', down)
      expect(await runsWithoutLock(locks.acquire('down', { ...TTL, waitMs }))).toBe(true)
    }
  })

  // B043: what a failed acquire had opened first was never closed, and piled up.
  it('leaves no timer, no listener and no place in a line, two hundred times over', async () => {
    const { clock, store, engine } = openWorld()
    const ours = engine()
    const theirs = engine()
    const holder = await ours.locks.acquire('busy', { ttlMs: 100_000, renew: false })
    const { locks, backend } = theirs
    const aborter = new AbortController()
    const faults = [
      lostRequest,
      lostReply,
      refusedWith(new BackendUnavailableError('no-permission', 'read-only user')),
      refusedWith(new Error('?')),
      (): never => {
        throw new TypeError('not a function')
      },
    ]
    const outcomes: Promise<unknown>[] = []
    for (let count = 0; count < 200; count += 1) {
      const fault = faults[count % 6]
      if (fault) backend.next('tryAcquire', fault)
      const waitMs = [0, 80, 700][count % 3] as number
      const options = { ...TTL, waitMs, signal: aborter.signal }
      outcomes.push(codeOf(locks.acquire(`${count % 2 ? 'busy' : 'free'} ${count % 5}`, options)))
      outcomes.push(codeOf(locks.acquire('busy', options)))
      await clock.advance(17)
    }
    await clock.advance(3000)
    await Promise.all(outcomes)
    expect(getEventListeners(aborter.signal, 'abort')).toHaveLength(0)
    await locks.close()
    await holder.release()
    expect(await timersLeft(clock)).toBe(0)
    for await (const entry of store.list('', 10)) expect(entry).toBeUndefined()
  })
})

describe('undoing', () => {
  // The limit on jobs counted every release that was under way, and gave up on what had to be undone.
  it('goes on while ten thousand releases are under way', async () => {
    const { clock, store, engine } = openWorld({}, { namesMax: 20_000 })
    const { locks, backend } = engine()
    const leases = await Promise.all(
      Array.from({ length: 10_001 }, (_, index) =>
        locks.acquire(`k${index}`, { ttlMs: 60_000, renew: false }),
      ),
    )
    backend.next('tryAcquire', lostReply)
    backend.next('cancel', lostRequest, lostRequest)
    const trying = watch(clock, locks.tryAcquire('orphan', { ttlMs: 60_000 }))
    await clock.advance(1990)
    const slow = delayed(seamsOf(clock), 0, 1500)
    backend.always('release', slow)
    const released = watch(clock, Promise.all(leases.map((lease) => lease.release())))
    await clock.advance(100)
    expect(trying.error).toMatchObject({ code: 'OUTCOME_UNKNOWN' })
    await clock.advance(9000)
    expect(released.state).toBe('resolved')
    expect(await store.inspect('orphan')).toBeNull()
  })
})

describe('a release that the store did not confirm', () => {
  // The reply to a long renewal was lost, and the trying stopped with the TTL that we knew of.
  it('is tried for as long as a renewal that was never answered may have made the entry', async () => {
    const { clock, store, engine } = openWorld()
    const { locks, backend } = engine()
    const lease = await locks.acquire('k', { ttlMs: 1000, renew: false })
    backend.next('renew', lostReply)
    const renewing = watch(clock, lease.renew(60_000))
    await clock.advance(500)
    expect(renewing.error).toMatchObject({ code: 'OUTCOME_UNKNOWN' })
    expect((await store.inspect('k'))?.remainingMs).toBeGreaterThan(50_000)
    backend.always('release', refusedWith(new BackendUnavailableError('down', 'no route')))
    const released = watch(clock, lease.release())
    await clock.advance(10_000)
    expect(released.state).toBe('rejected')
    backend.forget('release')
    await clock.advance(2500)
    expect(await store.inspect('k')).toBeNull()
  })
})

describe('a caller that is given nothing', () => {
  // The key of a contender that had left was found only when its TTL was over.
  it('is not held in the store one moment longer than its undo takes', async () => {
    const world = openWorld()
    const { locks, backend } = world.engine()
    const slow = gate()
    backend.next('tryAcquire', slow.fault)
    const waiting = watch(world.clock, locks.acquire('k', { ttlMs: 60_000, waitMs: 50 }))
    await world.clock.advance(40)
    await slow.arrive()
    expect(await world.store.inspect('k')).not.toBeNull()
    await world.clock.advance(10)
    expect(waiting.error).toMatchObject({ code: 'OUTCOME_UNKNOWN' })
    expect(await world.store.inspect('k')).toBeNull()
  })
})
