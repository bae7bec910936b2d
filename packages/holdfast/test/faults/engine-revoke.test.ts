import { describe, expect, it } from 'vitest'
import { seamsOf } from '../../src/testkit/virtual-clock.ts'
import { answering, delayed, gate, lostReply, lostRequest } from '../support/faulty-backend.ts'
import { codeOf, openWorld, timersLeft, watch } from '../support/open-engine.ts'

describe('a take-over by an operator', () => {
  // A gauge of held locks went below zero: the operator's lease had an end, but no beginning.
  it('has a story of its own: it is acquired with a larger token, and released', async () => {
    const { clock, store, engine } = openWorld()
    const holder = engine()
    const operator = engine()
    const lease = await holder.locks.acquire('k', { ttlMs: 30_000 })
    const { fencingToken } = lease
    const taken = await operator.locks.revoke('k', { fencingToken, reason: 'stuck' })
    expect(taken!.fencingToken > fencingToken).toBe(true)
    expect(taken!.isHeld).toBe(true)
    expect(await taken!.release()).toBe('released')
    expect(operator.typesOf('k')).toEqual(['acquired', 'released'])
    expect(holder.typesOf('k')).toEqual(['acquired', 'lost'])
    expect(await lease.release()).toBe('not-held')
    expect(await store.inspect('k')).toBeNull()
    expect(await timersLeft(clock)).toBe(0)
  })

  // Options that keep a name taken after the work were applied to the operator, who wanted it free.
  it('frees the name by its release at once, whatever the defaults are', async () => {
    const { engine } = openWorld()
    const defaults = { minHoldMs: 60_000, lockDelayMs: 5000, maxHoldMs: 40_000, ttlMs: 30_000 }
    const { locks } = engine({ defaults })
    const { fencingToken } = await locks.acquire('k')
    const taken = await locks.revoke('k', { fencingToken, reason: 'stuck' })
    expect(await taken!.release()).toBe('released')
    expect(await locks.tryAcquire('k')).not.toBeNull()
  })

  // A reason was cut in the middle of a character, and the cut refused as ill-formed text.
  it('takes any reason that is allowed, and shows as much of it as fits', async () => {
    for (const reason of ['x', '🔒'.repeat(64), `${'x'.repeat(55)}🔒`, 'é'.repeat(128)]) {
      const { store, engine } = openWorld()
      const { locks } = engine()
      const { fencingToken } = await locks.acquire('k')
      const taken = await locks.revoke('k', { fencingToken, reason })
      const label = (await store.inspect('k'))?.holder?.label ?? ''
      expect(label.isWellFormed()).toBe(true)
      expect(`revoke: ${reason}`.startsWith(label)).toBe(true)
      expect(Buffer.byteLength(label)).toBeLessThanOrEqual(256)
      await taken?.release()
    }
    const { engine } = openWorld()
    const { locks } = engine()
    for (const reason of ['', 'é'.repeat(129), '\ud800', 7 as never]) {
      expect(await codeOf(locks.revoke('k', { fencingToken: 1n, reason }))).toBe('INVALID_ARGUMENT')
    }
  })

  it('of another holder than the one that was seen changes nothing', async () => {
    const { engine } = openWorld()
    const { locks, typesOf } = engine()
    const lease = await locks.acquire('k')
    for (const fencingToken of [lease.fencingToken - 1n, lease.fencingToken + 1n]) {
      expect(await locks.revoke('k', { fencingToken, reason: 'stuck' })).toBeNull()
    }
    expect(await locks.revoke('free', { fencingToken: 1n, reason: 'stuck' })).toBeNull()
    expect(lease.isHeld).toBe(true)
    expect(typesOf('k')).toEqual(['acquired'])
  })

  // Counted from the answer, an operator believed in a lease that the store had ended.
  it('counts from before it was asked for, and is none when its time was over by then', async () => {
    for (const [backMs, leftMs] of [
      [300, 700],
      [1100, null],
    ] as const) {
      const { clock, store, engine } = openWorld()
      const holder = engine()
      const operator = engine()
      const { fencingToken } = await holder.locks.acquire('k', { ttlMs: 2000, renew: false })
      await clock.advance(1000)
      operator.backend.next('revoke', delayed(seamsOf(clock), 0, backMs))
      const taken = watch(clock, operator.locks.revoke('k', { fencingToken, reason: 'stuck' }))
      await clock.advance(backMs)
      expect(taken.state).toBe('resolved')
      if (leftMs === null) expect([taken.value, await store.inspect('k')]).toEqual([null, null])
      else expect(taken.value?.remainingMs()).toBeLessThanOrEqual(leftMs)
    }
  })

  // Without an answer the operator did not know, and the name stayed taken by nobody.
  it('without an answer is undone, also when the answer comes later', async () => {
    for (const fault of [lostReply, lostRequest, null]) {
      const { clock, store, engine } = openWorld()
      const holder = engine()
      const { locks, backend, typesOf } = engine()
      const { fencingToken } = await holder.locks.acquire('k', { ttlMs: 60_000, renew: false })
      const late = gate()
      backend.next('revoke', fault ?? late.fault)
      // Confirmed too early to hit what comes later.
      if (fault === null) backend.next('cancel', answering(undefined))
      const revoking = watch(clock, locks.revoke('k', { fencingToken, reason: 'stuck' }))
      await clock.advance(2500)
      expect(revoking.error).toMatchObject({ code: 'OUTCOME_UNKNOWN' })
      if (fault === null) await late.answer()
      await clock.advance(10)
      const left = await store.inspect('k')
      // Either the holder has it still, or nobody.
      expect(left === null || left.fencingToken === fencingToken).toBe(true)
      expect(left === null).toBe(fault !== lostRequest)
      expect(typesOf('k')).not.toContain('acquired')
    }
  })

  // The operator's own lease was lost, and the store's word for it reached nobody.
  it('can be lost in its turn, and is told', async () => {
    const { engine } = openWorld()
    const [first, second] = [engine(), engine()]
    const { fencingToken } = await engine().locks.acquire('k', { ttlMs: 60_000 })
    const taken = await first.locks.revoke('k', { fencingToken, reason: 'stuck' })
    const seen = { fencingToken: taken!.fencingToken, reason: 'stuck too' }
    await second.locks.revoke('k', seen)
    expect(taken!.signal.reason).toMatchObject({ code: 'LEASE_LOST', reason: 'revoked' })
    expect(first.typesOf('k')).toEqual(['acquired', 'lost'])
  })

  // What is left of the old holder's time may be next to nothing.
  it('that comes spent is lost from the start, or nothing, and never held', async () => {
    for (const leftMs of [0, 1, 3, 5, 20, 200]) {
      const { clock, store, engine } = openWorld()
      const { locks, backend, typesOf } = engine()
      const { fencingToken } = await engine().locks.acquire('k', { ttlMs: 1000, renew: false })
      await clock.advance(1000 - leftMs)
      const taken = await locks.revoke('k', { fencingToken, reason: 'stuck' })
      if (leftMs >= 200) expect(taken?.isHeld).toBe(true)
      if (leftMs < 5) expect(taken?.isHeld ?? false).toBe(false)
      await taken?.release()
      expect(await store.inspect('k')).toBeNull()
      const types = typesOf('k')
      expect(types[0] ?? 'acquired').toBe('acquired')
      expect(types.filter((type) => type === 'lost' || type === 'released')).toHaveLength(
        taken === null ? 0 : 1,
      )
      backend.always('revoke', answering(Promise.resolve(null)))
      expect(await locks.revoke('k', { fencingToken, reason: 'again' })).toBeNull()
    }
  })
})
