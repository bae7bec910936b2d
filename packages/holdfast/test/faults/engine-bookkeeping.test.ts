/** What the engine does beside a request, while the store works: figures, bounds, what it forgets. */
import { describe, expect, it } from 'vitest'
import { OutcomeUnknownError } from '../../src/core/errors.ts'
import { seamsOf } from '../../src/testkit/virtual-clock.ts'
import { appliedButHears, delayed, lostRequest, refusedWith } from '../support/faulty-backend.ts'
import { openWorld, watch } from '../support/open-engine.ts'

const NO_ANSWER = new OutcomeUnknownError('no answer')

describe('the figures of events', () => {
  it('count the wait until the answer, and the holding until the release or the loss', async () => {
    const { clock, engine } = openWorld()
    const { locks, backend } = engine()
    const figures: unknown[] = []
    locks.on('acquired', ({ waitedMs }) => figures.push(['acquired', waitedMs]))
    locks.on('released', ({ heldMs }) => figures.push(['released', heldMs]))
    locks.on('lost', ({ heldMs }) => figures.push(['lost', heldMs]))
    backend.next('tryAcquire', delayed(seamsOf(clock), 0, 60))
    const first = watch(clock, locks.acquire('k', { ttlMs: 10_000, renew: false }))
    await clock.advance(100)
    expect(first.atMs).toBe(1060)
    // It counts from before its request, and ends when the release is asked for.
    backend.next('release', delayed(seamsOf(clock), 20, 40))
    const released = watch(clock, first.value!.release())
    await clock.advance(100)
    expect(released.value).toBe('released')
    await locks.acquire('k', { ttlMs: 1000, renew: false })
    await clock.advance(2000)
    expect(figures).toEqual([
      ['acquired', 60],
      ['released', 100],
      ['acquired', 0],
      ['lost', 888],
    ])
  })
})

describe('a release', () => {
  // Whether "not held" is the work of the first request or of somebody else is told by the time.
  it('whose answer was lost is one, if the lease was valid when it was asked again', async () => {
    for (const [heldForMs, expected] of [
      [500, 'released'],
      [870, 'not-held'],
    ] as const) {
      const { clock, engine } = openWorld()
      const { locks, backend } = engine()
      const lease = await locks.acquire('k', { ttlMs: 1000, renew: false })
      await clock.advance(heldForMs)
      backend.next('release', appliedButHears(NO_ANSWER))
      const released = watch(clock, lease.release())
      await clock.advance(1000)
      expect(released).toMatchObject({ state: 'resolved', value: expected })
    }
  })

  // With nothing left of its lease a release was given up as it left.
  it('shortly before the deadline has time for its answer all the same', async () => {
    const { clock, engine } = openWorld()
    const { locks, backend } = engine()
    const lease = await locks.acquire('k', { ttlMs: 1000, renew: false })
    await clock.advance(880)
    backend.next('release', delayed(seamsOf(clock), 20, 40))
    const released = watch(clock, lease.release())
    await clock.advance(1000)
    expect(released).toMatchObject({ state: 'resolved', value: 'released', atMs: 1940 })
  })

  // Each try had the whole bound anew, so that a caller was kept for a multiple of it.
  it('of several tries keeps its caller for two seconds, no longer', async () => {
    const { clock, engine } = openWorld()
    const { locks, backend } = engine()
    const lease = await locks.acquire('k', { ttlMs: 60_000 })
    backend.next('release', refusedWith(NO_ANSWER))
    backend.always('release', lostRequest)
    const released = watch(clock, lease.release())
    await clock.advance(10_000)
    expect(released).toMatchObject({ state: 'rejected', error: { code: 'OUTCOME_UNKNOWN' } })
    expect(released.atMs).toBe(3000)
  })

  it('that is asked for again keeps the name for the rest of a minimum hold, no longer', async () => {
    const { clock, engine } = openWorld()
    const { locks, backend } = engine()
    const lease = await locks.acquire('k', { ttlMs: 10_000, minHoldMs: 5000 })
    await clock.advance(1000)
    backend.next('release', refusedWith(NO_ANSWER))
    const released = watch(clock, lease.release())
    await clock.advance(1000)
    expect(released.value).toBe('released')
    expect(backend.callsOf('release').map(({ ttlMs }) => ttlMs)).toEqual([4000, 3950])
  })

  // While the lease stood in the books, the process took itself for the holder: it asked for no
  // wake-up, and a wait that ended named itself.
  it.each(['confirmed', 'without an answer'])('that was %s is forgotten', async (how) => {
    const { clock, store, engine } = openWorld()
    const ours = engine()
    const theirs = engine()
    const lease = await ours.locks.acquire('k', { ttlMs: 10_000, label: 'ours' })
    if (how === 'without an answer') ours.backend.next('release', appliedButHears(new TypeError()))
    const released = watch(clock, lease.release())
    await clock.advance(10)
    expect(released.state).toBe(how === 'confirmed' ? 'resolved' : 'rejected')
    expect(await store.inspect('k')).toBeNull()
    const other = await theirs.locks.acquire('k', { ttlMs: 10_000, label: 'theirs' })
    const ended = watch(clock, ours.locks.acquire('k', { waitMs: 50 }))
    await clock.advance(100)
    expect(ended.error).toMatchObject({ code: 'LOCK_HELD', holder: { label: 'theirs' } })
    const next = watch(clock, ours.locks.acquire('k'))
    await clock.advance(10)
    await other.release()
    await clock.advance(20)
    // Woken, and not at its next poll.
    expect(next.state).toBe('resolved')
  })
})

// A step of the wall clock may mean a sleep, and brings one renewal forward. It brought one for every
// look at the lease.
it('a wall clock that goes forward costs one renewal, however often the lease is looked at', async () => {
  const { clock, engine } = openWorld()
  const { locks, backend } = engine()
  const lease = await locks.acquire('k', { ttlMs: 30_000 })
  clock.stepWall(60_000)
  for (let look = 0; look < 100; look++) {
    expect(lease.isHeld).toBe(true)
    await clock.advance(10)
  }
  expect(backend.callsOf('renew')).toHaveLength(1)
})
