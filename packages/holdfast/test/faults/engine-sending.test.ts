/** A request is sent in the middle of a call: what a client or a listener does meanwhile counts. */
import { describe, expect, it } from 'vitest'
import { codeOf, openWorld, timersLeft, watch } from '../support/open-engine.ts'

const FOREVER = Number.POSITIVE_INFINITY
const LEFT = new Error('left')

describe('a caller who leaves while the request is being sent', () => {
  // The signal was listened to only afterwards, when it had aborted already: a caller with no limit
  // then waited for ever.
  it.each(['acquire', 'tryAcquire'] as const)('is let go at once by %s', async (call) => {
    const { clock, store, engine } = openWorld()
    const { locks, backend } = engine()
    const controller = new AbortController()
    backend.always('tryAcquire', async (apply) => {
      controller.abort(LEFT)
      await apply()
      return new Promise(() => {})
    })
    const { signal } = controller
    const asked =
      call === 'acquire'
        ? locks.acquire('k', { signal, waitMs: FOREVER })
        : locks.tryAcquire('k', { signal })
    const outcome = watch(clock, asked)
    await clock.advance(0)
    expect(outcome).toMatchObject({ state: 'rejected', error: LEFT })
    expect(backend.callsOf('tryAcquire')).toHaveLength(1)
    await clock.advance(100)
    expect(await store.inspect('k')).toBeNull()
    backend.forget('tryAcquire')
    expect(await codeOf(locks.acquire('k').then((lease) => lease.release()))).toBe('resolved')
    await locks.close()
    expect(await timersLeft(clock)).toBe(0)
  })

  it('because of a loss that this very call finds is let go at once', async () => {
    const { clock, engine } = openWorld()
    const { locks, backend } = engine()
    await locks.acquire('k', { ttlMs: 1000, renew: false })
    const controller = new AbortController()
    locks.on('lost', () => controller.abort(LEFT))
    backend.always('tryAcquire', () => new Promise(() => {}))
    // No timer has told of the end yet.
    clock.block(1500)
    const outcome = watch(clock, locks.acquire('k', { signal: controller.signal, waitMs: FOREVER }))
    await clock.advance(0)
    expect(outcome).toMatchObject({ state: 'rejected', error: LEFT })
    await locks.close()
    expect(await timersLeft(clock)).toBe(0)
  })
})

// The line of the name was begun twice: a contender who had been served stood in the one that nobody
// knew of, and the name was taken and given back for him for ever.
it('a lock that a listener asks for again, in a loss that an acquire finds, is granted in turn', async () => {
  const { clock, store, engine } = openWorld()
  const { locks, backend } = engine()
  await locks.acquire('k', { ttlMs: 1000, renew: false })
  const again: Promise<string>[] = []
  const ask = (who: string): Promise<string> =>
    locks.acquire('k', { waitMs: FOREVER }).then((lease) => lease.release().then(() => who))
  locks.on('lost', () => again.push(ask('listener')))
  clock.block(1500)
  const outcome = watch(clock, ask('caller'))
  await clock.advance(1000)
  expect(outcome).toMatchObject({ state: 'resolved', value: 'caller' })
  expect(await Promise.all(again)).toEqual(['listener'])
  const before = backend.calls.length
  await clock.advance(60_000)
  expect(backend.calls.length).toBe(before)
  expect(await store.inspect('k')).toBeNull()
  await locks.close()
  expect(await timersLeft(clock)).toBe(0)
})

describe('a request whose sending takes long', () => {
  // Counted from after it, a client that took long to send was given as long again to answer.
  it.each(['acquire', 'renewal'] as const)('is given up no later for it: %s', async (what) => {
    const { clock, engine } = openWorld()
    const { locks, backend } = engine()
    const lease = what === 'renewal' ? await locks.acquire('k', { ttlMs: 1000 }) : null
    const sentAtMs = clock.nowMs()
    const method = what === 'renewal' ? 'renew' : 'tryAcquire'
    backend.next(method, () => {
      clock.block(90)
      return new Promise(() => {})
    })
    const asked: Promise<unknown> = lease ? lease.renew() : locks.tryAcquire('k', { ttlMs: 1000 })
    const outcome = watch(clock, asked)
    await clock.advance(1000)
    expect(outcome).toMatchObject({ state: 'rejected', error: { code: 'OUTCOME_UNKNOWN' } })
    // A tenth of the TTL, and what is left of its life when a tenth of it must be left.
    expect((outcome.atMs ?? 0) - sentAtMs).toBe(what === 'renewal' ? 100 : 788)
    await locks.close()
    expect(await timersLeft(clock)).toBe(0)
  })
})

it('a wait is over when its time is, however long its first request took to be sent', async () => {
  const { clock, engine } = openWorld()
  const { locks, backend } = engine()
  backend.next('tryAcquire', () => {
    clock.block(90)
    return new Promise(() => {})
  })
  const sentAtMs = clock.nowMs()
  const outcome = watch(clock, locks.acquire('k', { waitMs: 500 }))
  await clock.advance(1000)
  expect(outcome.state).toBe('rejected')
  expect((outcome.atMs ?? 0) - sentAtMs).toBe(500)
  await locks.close()
})

// With a client that does not keep the process running, the process ended in the middle of a call;
// or a renewal that nobody waits for kept a process that had nothing left to do.
describe('the process is kept running by a request without an answer', () => {
  const SILENT = () => new Promise(() => {})

  it('if a caller waits for it: an acquire, a renewal, a release, a look', async () => {
    const { clock, engine, keepingAlive } = openWorld()
    const { locks, backend } = engine()
    const lease = await locks.acquire('k')
    expect(keepingAlive()).toBe(0)
    for (const method of ['tryAcquire', 'renew', 'inspect', 'release'] as const) {
      backend.always(method, SILENT)
    }
    const calls: (() => Promise<unknown>)[] = [
      () => locks.tryAcquire('other'),
      () => locks.acquire('another', { waitMs: 1000 }),
      () => locks.acquire('another', { waitMs: 0 }),
      () => lease.renew(),
      () => locks.inspect('k'),
      () => lease.release(),
    ]
    for (const call of calls) {
      const outcome = watch(clock, call())
      await clock.advance(10)
      expect([outcome.state, keepingAlive()]).toEqual(['pending', 1])
      await clock.advance(5000)
      expect([outcome.state, keepingAlive()]).toEqual(['rejected', 0])
    }
  })

  it('and else not: the renewals of a lease, and what has to be undone', async () => {
    const { clock, engine, keepingAlive } = openWorld()
    const { locks, backend } = engine()
    await locks.acquire('k', { ttlMs: 30_000 })
    backend.always('renew', SILENT)
    await clock.advance(10_100)
    expect([backend.callsOf('renew').length, keepingAlive()]).toEqual([1, 0])
    backend.always('tryAcquire', SILENT)
    backend.always('cancel', SILENT)
    const asked = watch(clock, locks.tryAcquire('other'))
    await clock.advance(2500)
    expect(asked.state).toBe('rejected')
    expect([backend.callsOf('cancel').length, keepingAlive()]).toEqual([1, 0])
  })
})
