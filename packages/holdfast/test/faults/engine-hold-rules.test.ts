import { describe, expect, it } from 'vitest'
import { lifeMs } from '../../src/core/validity.ts'
import { answering, delayed, lostRequest } from '../support/faulty-backend.ts'
import { openWorld, watch } from '../support/open-engine.ts'

const TTL_MS = 1000
const DELAY_MS = 4000

describe('a lock delay', () => {
  // The holder ran out of time while a write of its was still on the way: the next one must not start
  // before that write has landed.
  it('keeps the name taken after an expiry, also when the late holder releases', async () => {
    const { clock, store, engine } = openWorld()
    const { locks } = engine()
    const options = { ttlMs: TTL_MS, lockDelayMs: DELAY_MS, renew: false }
    const lease = await locks.acquire('k', options)
    await clock.advance(TTL_MS)
    expect(lease.isHeld).toBe(false)
    expect(await lease.release()).toBe('not-held')
    expect(await store.inspect('k')).not.toBeNull()
    await clock.advance(DELAY_MS - 1)
    expect(await locks.tryAcquire('k')).toBeNull()
    await clock.advance(1)
    expect(await locks.tryAcquire('k')).not.toBeNull()
  })

  it('does not follow a release: the name is free at once', async () => {
    const { store, engine } = openWorld()
    const { locks } = engine()
    const lease = await locks.acquire('k', { ttlMs: TTL_MS, lockDelayMs: DELAY_MS })
    expect(await lease.release()).toBe('released')
    expect(await store.inspect('k')).toBeNull()
  })

  it('does not follow a loss of another reason, once the holder says that it has stopped', async () => {
    const { clock, store, engine } = openWorld()
    const { locks } = engine()
    const options = { ttlMs: TTL_MS, lockDelayMs: DELAY_MS, maxHoldMs: TTL_MS }
    const lease = await locks.acquire('k', options)
    await clock.advance(TTL_MS)
    expect(lease.signal.reason).toMatchObject({ reason: 'max-hold' })
    expect(await store.inspect('k')).not.toBeNull()
    expect(await lease.release()).toBe('not-held')
    expect(await store.inspect('k')).toBeNull()
  })

  // A holder that counted the delay as its own time would hold while the name is given away.
  it('is no time of the holder, neither after the grant nor after a renewal', async () => {
    const { clock, engine } = openWorld()
    const { locks, backend } = engine()
    const lease = await locks.acquire('k', { ttlMs: TTL_MS, lockDelayMs: DELAY_MS })
    expect(lease.remainingMs()).toBe(lifeMs(TTL_MS))
    backend.always('renew', lostRequest)
    await clock.advance(lifeMs(TTL_MS) - 1)
    expect(lease.isHeld).toBe(true)
    await clock.advance(1)
    expect(lease.isHeld).toBe(false)

    const second = openWorld()
    const own = second.engine()
    const renewed = await own.locks.acquire('k', {
      ttlMs: TTL_MS,
      lockDelayMs: DELAY_MS,
      renew: false,
    })
    await second.clock.advance(500)
    await renewed.renew()
    expect(renewed.remainingMs()).toBe(lifeMs(TTL_MS))
  })

  it('is asked of the store at the grant and at every renewal', async () => {
    const { clock, store, engine } = openWorld()
    const { locks, backend } = engine()
    const lease = await locks.acquire('k', { ttlMs: TTL_MS, lockDelayMs: DELAY_MS })
    expect((await store.inspect('k'))?.remainingMs).toBe(TTL_MS + DELAY_MS)
    await clock.advance(400)
    expect(backend.callsOf('renew').map((call) => call.ttlMs)).toEqual([TTL_MS + DELAY_MS])
    expect(lease.isHeld).toBe(true)
  })

  // A store may grant less than was asked for; the delay is not taken from the rest of the world.
  it('comes first when the store grants less than was asked for', async () => {
    const { clock, store, engine } = openWorld()
    const { locks, backend } = engine()
    backend.next('tryAcquire', async (apply) => {
      const result = (await apply()) as { grant: object }
      return { ...result, grant: { ...result.grant, ttlMs: 1500 } }
    })
    const lease = await locks.acquire('k', { ttlMs: TTL_MS, lockDelayMs: 1000, renew: false })
    expect(lease.remainingMs()).toBe(lifeMs(500))
    await clock.advance(lifeMs(500))
    expect(lease.isHeld).toBe(false)
    expect(await store.inspect('k')).not.toBeNull()
  })
})

describe('a minimum hold', () => {
  // A job that ends in a millisecond was run again by a process whose clock was a little behind.
  it('counts from the grant, nobody holds the rest of it, and nobody else gets in', async () => {
    const { clock, store, engine } = openWorld()
    const { locks } = engine()
    const lease = await locks.acquire('k', { ttlMs: TTL_MS, minHoldMs: 5000 })
    await clock.advance(700)
    expect(await lease.release()).toBe('released')
    expect(await store.inspect('k')).toBeNull()
    expect(await locks.tryAcquire('k')).toBeNull()
    const waiting = watch(clock, locks.acquire('k', { ttlMs: TTL_MS, waitMs: 60_000 }))
    await clock.advance(4299)
    expect(waiting.state).toBe('pending')
    // The last poll comes up to a quarter late.
    await clock.advance(300)
    expect(waiting.state).toBe('resolved')
  })

  it('that is over by then leaves nothing behind', async () => {
    const { clock, store, engine } = openWorld()
    const { locks } = engine()
    const lease = await locks.acquire('k', { ttlMs: TTL_MS, minHoldMs: 500 })
    await clock.advance(500)
    await lease.release()
    expect(await locks.tryAcquire('k')).not.toBeNull()
    expect(await store.inspect('k')).not.toBeNull()
  })

  it('counts from before the request left, so that a slow grant does not lengthen it', async () => {
    const clockWorld = openWorld()
    const { clock, engine } = clockWorld
    const { locks, backend } = engine()
    backend.next('tryAcquire', delayed({ after: clock.after.bind(clock) } as never, 0, 300))
    const asked = watch(clock, locks.acquire('k', { ttlMs: TTL_MS, minHoldMs: 2000 }))
    await clock.advance(300)
    await asked.value?.release()
    expect(backend.callsOf('release').map((call) => call.ttlMs)).toEqual([1700])
  })

  it('longer than the TTL is no longer life for the holder', async () => {
    const { engine } = openWorld()
    const { locks } = engine()
    const lease = await locks.acquire('k', { ttlMs: TTL_MS, minHoldMs: 5000, renew: false })
    expect(lease.remainingMs()).toBe(lifeMs(TTL_MS))
  })
})

describe('a renewal that promises no new time', () => {
  it('leaves the deadline where it was', async () => {
    const { clock, engine } = openWorld()
    const { locks, backend } = engine()
    const lease = await locks.acquire('k', { ttlMs: TTL_MS })
    backend.always('renew', (apply) =>
      apply().then((answer) => ({ ...(answer as object), kind: 'unchanged' })),
    )
    await clock.advance(lifeMs(TTL_MS) - 1)
    expect(lease.isHeld).toBe(true)
    await clock.advance(1)
    expect(lease.signal.reason).toMatchObject({ reason: 'expired' })
  })

  it('that is no answer at all is a failure, not a life', async () => {
    const { clock, engine } = openWorld()
    const { locks, backend, typesOf } = engine()
    await locks.acquire('k', { ttlMs: TTL_MS })
    backend.always('renew', answering(Promise.resolve({ kind: 'renewed' })))
    await clock.advance(TTL_MS)
    expect(typesOf('k')).toContain('renewal-failed')
    expect(typesOf('k').at(-1)).toBe('lost')
  })
})
