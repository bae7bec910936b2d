import { describe, expect, it } from 'vitest'
import type { Lease } from '../../src/core/lease.ts'
import { answering, type Fault, gate, lostReply, lostRequest } from '../support/faulty-backend.ts'
import { codeOf, openWorld, timersLeft, type Watched, watch } from '../support/open-engine.ts'

const OPTIONS = { ttlMs: 1000, waitMs: 5000 }

/** A holder, and one contender behind it that waits to be passed the grant. */
async function holderAndNext(signal?: AbortSignal, ttlMs = 1000) {
  const world = openWorld()
  const engine = world.engine()
  const holder = await engine.locks.acquire('k', { ...OPTIONS, ttlMs })
  const next = watch(world.clock, engine.locks.acquire('k', { ...OPTIONS, ttlMs, signal }))
  await world.clock.advance(10)
  return { ...world, ...engine, holder, next }
}

function leaseOf(watched: Watched<Lease>): Lease {
  if (watched.value === undefined) throw new Error(`no lease: ${watched.state}`)
  return watched.value
}

describe('a grant passed on within the process', () => {
  // Observers that count holders saw two, because the old end was told after the new beginning.
  it('is told as one end and then one beginning, with a larger token', async () => {
    const { clock, holder, next, told } = await holderAndNext()
    expect(await holder.release()).toBe('released')
    await clock.advance(0)
    const lease = leaseOf(next)
    expect(lease.fencingToken > holder.fencingToken).toBe(true)
    const ends = told.filter(({ type }) => type === 'released' || type === 'acquired')
    expect(ends.map(({ type, fencingToken }) => [type, fencingToken])).toEqual([
      ['acquired', holder.fencingToken],
      ['released', holder.fencingToken],
      ['acquired', lease.fencingToken],
    ])
  })

  // A contender that left while the grant was under way to it took the lock along to its grave.
  it('goes to the one behind when its contender leaves meanwhile', async () => {
    const aborter = new AbortController()
    const { clock, holder, next, locks, backend, told } = await holderAndNext(aborter.signal)
    const third = watch(clock, locks.acquire('k', OPTIONS))
    const passing = gate()
    backend.next('handOver', passing.fault)
    const released = watch(clock, holder.release())
    await passing.arrive()
    aborter.abort('left')
    await clock.advance(1)
    expect(next).toMatchObject({ state: 'rejected', error: 'left' })
    await passing.answer()
    await clock.advance(1)
    expect(released.value).toBe('released')
    expect(third.state).toBe('resolved')
    expect(await leaseOf(third).release()).toBe('released')
    // Nobody held in between, as far as anyone was told.
    expect(told.filter(({ type }) => type === 'acquired')).toHaveLength(2)
    expect(told.filter(({ type }) => type === 'released')).toHaveLength(2)
    expect(await timersLeft(clock)).toBe(0)
  })

  it('is released when its contender leaves meanwhile and nobody stands behind', async () => {
    const aborter = new AbortController()
    const { clock, store, holder, next, locks, backend } = await holderAndNext(aborter.signal)
    const passing = gate()
    backend.next('handOver', passing.fault)
    const released = watch(clock, holder.release())
    await passing.arrive()
    aborter.abort('left')
    await passing.answer()
    await clock.advance(1)
    expect(released.value).toBe('released')
    expect(next.error).toBe('left')
    expect(await store.inspect('k')).toBeNull()
    expect(await locks.tryAcquire('k')).not.toBeNull()
  })

  for (const [what, fault] of [
    ['request', lostRequest],
    ['reply', lostReply],
  ] as [string, Fault][]) {
    // With its reply lost nobody knows which of the two has it: the next owner must not keep it
    // without knowing, nor the line wait for an answer that never comes.
    it(`is undone and tried again when its ${what} is lost, for the same contender first`, async () => {
      const { clock, store, holder, next, locks, backend } = await holderAndNext()
      const third = watch(clock, locks.acquire('k', { ...OPTIONS, waitMs: 8000 }))
      backend.next('handOver', fault)
      const released = watch(clock, holder.release())
      await clock.advance(3000)
      expect(released.state).toBe('rejected')
      expect(released.error).toMatchObject({ code: 'OUTCOME_UNKNOWN' })
      expect(next.state).toBe('resolved')
      expect(third.state).toBe('pending')
      const lease = leaseOf(next)
      expect((await store.inspect('k'))?.fencingToken).toBe(lease.fencingToken)
      await lease.release()
      await clock.advance(1)
      await leaseOf(third).release()
      expect(await store.inspect('k')).toBeNull()
      expect(await timersLeft(clock)).toBe(0)
    })
  }

  // The undo of a lost hand-over freed the name, and the line slept on until its next poll.
  it('is asked for again as soon as a lost hand-over was undone, not at the next poll', async () => {
    const { clock, engine } = openWorld()
    const { locks, backend } = engine({ without: ['wakeUp'] })
    const long = { ttlMs: 30_000, waitMs: 20_000 }
    const holder = await locks.acquire('k', long)
    const next = watch(clock, locks.acquire('k', long))
    await clock.advance(10)
    backend.next('handOver', lostReply)
    const cancel = gate()
    backend.next('cancel', cancel.fault)
    holder.release().catch((error) => expect(error).toMatchObject({ code: 'OUTCOME_UNKNOWN' }))
    // The line asks, finds its own lost grant in the way, and is told to wait for its end.
    await clock.advance(2200)
    expect(next.state).toBe('pending')
    await cancel.answer()
    await clock.advance(1)
    expect(next.state).toBe('resolved')
  })

  // A hand-over that answers late must not give a second holder beside the one that asked again.
  it('that is confirmed too late gives nobody a second grant', async () => {
    const { clock, store, holder, next, backend } = await holderAndNext()
    const slow = gate()
    backend.next('handOver', slow.fault)
    holder.release().catch((error) => expect(error).toMatchObject({ code: 'OUTCOME_UNKNOWN' }))
    await clock.advance(1200)
    expect(next.state).toBe('resolved')
    const lease = leaseOf(next)
    await slow.answer()
    await clock.advance(10)
    expect((await store.inspect('k'))?.fencingToken).toBe(lease.fencingToken)
    expect(lease.isHeld).toBe(true)
    expect(await lease.release()).toBe('released')
    expect(await timersLeft(clock)).toBe(0)
  })

  // The undo was confirmed, and the hand-over it was for happened after all.
  it('that happens although its undo was confirmed is undone once more', async () => {
    const { clock, store, holder, next, backend } = await holderAndNext(undefined, 30_000)
    const slow = gate()
    backend.next('handOver', slow.fault)
    backend.next('cancel', answering(undefined))
    backend.always('release', lostRequest)
    holder.release().catch((error) => expect(error).toMatchObject({ code: 'OUTCOME_UNKNOWN' }))
    await clock.advance(2200)
    await slow.answer()
    await clock.advance(1)
    expect(next.state).toBe('resolved')
    expect((await store.inspect('k'))?.fencingToken).toBe(leaseOf(next).fencingToken)
  })

  // B054: a wait that ran out while our own process was passing the lock on was called "the store is
  // down, nothing was applied", which is the one answer after which people run without a lock.
  it('never lets a wait that runs out meanwhile look like a store that is down', async () => {
    const { clock, locks, holder, backend } = await holderAndNext()
    const short = { ...OPTIONS, waitMs: 300 }
    const behind = watch(clock, locks.acquire('k', short))
    const passing = gate()
    backend.next('handOver', passing.fault)
    const released = watch(clock, holder.release())
    await clock.advance(400)
    expect(behind.error).toMatchObject({ code: 'LOCK_HELD' })
    await passing.answer()
    await clock.advance(1)
    expect(released.value).toBe('released')

    const world = await holderAndNext()
    const quick = watch(world.clock, world.locks.acquire('other', OPTIONS))
    await world.clock.advance(1)
    const waits = watch(world.clock, world.locks.acquire('other', short))
    const slow = gate()
    world.backend.next('handOver', slow.fault)
    leaseOf(quick).release()
    await world.clock.advance(400)
    expect(['LOCK_HELD', 'OUTCOME_UNKNOWN']).toContain((waits.error as { code: string }).code)
    await slow.answer()
    await world.clock.advance(1)
    expect(await world.store.inspect('other')).toBeNull()
  })

  // The store named nobody or somebody else by then: passing on would have made a holder of it.
  it('is not granted when the old grant had ended, and the contender asks for itself', async () => {
    const { clock, store, holder, next } = await holderAndNext()
    await store.cancel('k', holder.owner)
    expect(await holder.release()).toBe('not-held')
    await clock.advance(1)
    expect(next.state).toBe('resolved')
    expect((await store.inspect('k'))?.fencingToken).toBe(leaseOf(next).fencingToken)
  })

  // What came back was no grant at all: it must be undone, and the line must not stand still.
  it('that answers nonsense is undone, and the contender asks for itself', async () => {
    for (const value of [undefined, null, 7, {}, { kind: 'handed-over' }]) {
      const { clock, store, holder, next, backend } = await holderAndNext(undefined, 30_000)
      backend.next('handOver', (apply) => apply().then(() => value))
      expect(await codeOf(holder.release())).toBe('OUTCOME_UNKNOWN')
      await clock.advance(2500)
      expect([value, next.state]).toEqual([value, 'resolved'])
      await leaseOf(next).release()
      expect(await store.inspect('k')).toBeNull()
    }
    const { clock, holder, next, backend } = await holderAndNext()
    backend.next('handOver', answering(undefined))
    expect(await codeOf(holder.release())).toBe('OUTCOME_UNKNOWN')
    await clock.advance(2500)
    expect(next.state).toBe('resolved')
  })

  // The head asks the store itself while its own process lets go: neither may wait for the other.
  it('is replaced by a plain release while an attempt of the line is in flight', async () => {
    const { clock, engine } = openWorld()
    const { locks, backend } = engine({ without: ['wakeUp'] })
    const holder = await locks.acquire('k', OPTIONS)
    const next = watch(clock, locks.acquire('k', OPTIONS))
    const asking = gate()
    backend.next('tryAcquire', asking.fault)
    await clock.advance(1251)
    await asking.arrive()
    expect(await holder.release()).toBe('released')
    expect(backend.callsOf('handOver')).toHaveLength(0)
    await asking.answer()
    await clock.advance(1)
    // The refusal was older than the release, so it was asked again at once.
    expect(next.state).toBe('resolved')
  })
})
