import { describe, expect, it } from 'vitest'
import { BackendUnavailableError } from '../../src/core/errors.ts'
import { refusedWith } from '../support/faulty-backend.ts'
import { openWorld, watch } from '../support/open-engine.ts'

const down = refusedWith(new BackendUnavailableError('down', 'no route'))

describe('a release that the store did not confirm', () => {
  // After a renewal to a shorter TTL the trying stopped with that TTL; the entry, which a renewal never
  // shortens, kept everybody out for the rest of the longer one.
  it('is tried again until the entry has ended, also after a renewal to a shorter TTL', async () => {
    const { clock, store, engine } = openWorld()
    const { locks, backend } = engine()
    const lease = await locks.acquire('k', { ttlMs: 60_000, renew: false })
    await lease.renew(500)
    backend.always('release', down)
    const released = watch(clock, lease.release())
    await clock.advance(10_000)
    expect(released.state).toBe('rejected')
    expect(await store.inspect('k')).not.toBeNull()
    backend.forget('release')
    await clock.advance(2500)
    expect(await store.inspect('k')).toBeNull()
  })

  // An operator's lease has what was left of the old holder's time, not the default TTL.
  it('of an operator is tried again for as long as what was taken over lasts', async () => {
    const { clock, store, engine } = openWorld()
    const holder = engine()
    const operator = engine({ defaults: { ttlMs: 1000 } })
    const { fencingToken } = await holder.locks.acquire('k', { ttlMs: 600_000 })
    const taken = await operator.locks.revoke('k', { fencingToken, reason: 'stuck' })
    operator.backend.always('release', down)
    const released = watch(clock, taken!.release())
    await clock.advance(20_000)
    expect(released.state).toBe('rejected')
    operator.backend.forget('release')
    await clock.advance(2500)
    expect(await store.inspect('k')).toBeNull()
  })

  // A store that has no token left, or too many attempts to undo, can still let go.
  it('because it was a hand-over that the store refused, is a release at the next try', async () => {
    const { clock, store, engine } = openWorld()
    const { locks, backend } = engine()
    const lease = await locks.acquire('k', { ttlMs: 10_000 })
    const next = watch(clock, locks.acquire('k', { ttlMs: 10_000 }))
    await clock.advance(1)
    backend.always('handOver', refusedWith(new BackendUnavailableError('backlog', 'too many')))
    const released = watch(clock, lease.release())
    await clock.advance(100)
    expect(released).toMatchObject({ state: 'resolved', value: 'released' })
    expect(next.state).toBe('resolved')
    expect((await store.inspect('k'))?.fencingToken).toBe(next.value?.fencingToken)
  })
})
