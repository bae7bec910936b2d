import { describe, expect, it } from 'vitest'
import { memoryBackendWith } from '../../src/backends/memory/memory.ts'
import type { Lease } from '../../src/core/lease.ts'
import { createLocksWith } from '../../src/lock/lock.ts'
import { seamsOf } from '../../src/testkit/virtual-clock.ts'
import { delayed, gate } from '../support/faulty-backend.ts'
import { codeOf, openWorld, timersLeft, watch } from '../support/open-engine.ts'

describe('a release', () => {
  // B014: a slow holder's release deleted the lock of the next holder, and a third worker got in.
  it('of an expired lease leaves the next holder alone, and says that it was not held', async () => {
    const { clock, store, engine } = openWorld()
    const [a, b, c] = [engine(), engine(), engine()]
    const slow = await a.locks.acquire('k', { ttlMs: 100, renew: false })
    await clock.advance(200)
    const next = await b.locks.acquire('k', { ttlMs: 10_000 })
    expect(await slow.release()).toBe('not-held')
    expect((await store.inspect('k'))?.fencingToken).toBe(next.fencingToken)
    expect(await c.locks.tryAcquire('k')).toBeNull()
    expect(next.isHeld).toBe(true)
    expect(await next.release()).toBe('released')
  })

  // B020: releasing inside the scope and again at its end threw.
  it('is sent once, however often and in whatever way it is called', async () => {
    const { clock, engine } = openWorld()
    const { locks, backend, typesOf } = engine()
    const lease = await locks.acquire('k', { ttlMs: 1000 })
    const slow = gate()
    backend.next('release', slow.fault)
    const calls = [lease.release(), lease.release(), lease[Symbol.asyncDispose](), lease.release()]
    await clock.advance(1)
    await slow.answer()
    expect(await Promise.all(calls)).toEqual(['released', 'released', undefined, 'released'])
    expect(await lease.release()).toBe('released')
    expect(backend.callsOf('release')).toHaveLength(1)

    const value = await locks.using('k', async (inner) => {
      expect(await inner.release()).toBe('released')
      return 'done'
    })
    expect(value).toBe('done')
    expect(backend.callsOf('release')).toHaveLength(2)
    expect(typesOf('k')).toEqual(['acquired', 'released', 'acquired', 'released'])
  })

  // B019: a renewal on its way found the key gone, because the release had won, and called it a loss.
  it('supersedes a renewal in flight, whatever that one answers', async () => {
    for (let round = 0; round < 200; round += 1) {
      const { clock, engine } = openWorld({ seed: round + 1 })
      const { locks, backend, typesOf } = engine()
      const seams = seamsOf(clock)
      backend.always('renew', delayed(seams, round % 10, round % 4))
      backend.always('release', delayed(seams, round % 3, round % 7))
      const done = watch(
        clock,
        locks.using('k', { ttlMs: 300, renewEveryMs: 20 }, async (lease) => {
          await new Promise<void>((resolve) => clock.after(15 + (round % 11), resolve))
          return lease.isHeld
        }),
      )
      await clock.advance(400)
      expect(done).toMatchObject({ state: 'resolved', value: true })
      expect(typesOf('k').filter((type) => type !== 'renewed')).toEqual(['acquired', 'released'])
      expect(typesOf('k').at(-1)).toBe('released')
    }
  })
})

describe('a renewal', () => {
  // B015: extending a lock that had expired brought it to life again, and hid that somebody may have
  // worked in between.
  it('of an entry that is gone is a loss, and creates nothing', async () => {
    for (const renew of [true, false]) {
      const { clock, store, engine } = openWorld()
      const { locks, typesOf } = engine()
      const lease = await locks.acquire('k', { ttlMs: 5000, renew })
      const { signal } = lease
      await store.cancel('k', lease.owner)
      if (renew) await clock.advance(1700)
      else expect(await codeOf(lease.renew())).toBe('LEASE_LOST')
      expect(signal.reason).toMatchObject({ code: 'LEASE_LOST', reason: 'expired' })
      expect(lease.isHeld).toBe(false)
      expect(await store.inspect('k')).toBeNull()
      await clock.advance(20_000)
      expect(await store.inspect('k')).toBeNull()
      expect(typesOf('k')).toEqual(['acquired', 'lost'])
    }
  })

  it('of an entry that is another owner’s is a loss, and leaves that one alone', async () => {
    const { clock, store, engine } = openWorld()
    const { locks, told } = engine()
    const lease = await locks.acquire('k', { ttlMs: 5000 })
    await store.cancel('k', lease.owner)
    const next = await engine().locks.acquire('k', { ttlMs: 60_000, renew: false })
    await clock.advance(1700)
    expect(told.at(-1)).toMatchObject({ type: 'lost', reason: 'superseded' })
    expect((await store.inspect('k'))?.remainingMs).toBe(60_000 - 1700)
    expect(next.isHeld).toBe(true)
  })

  // B099: each entry minted a new number, and the owner's own writes on their way were refused.
  it('never changes the token, nor does anything else in one period of holding', async () => {
    const { clock, store, engine } = openWorld()
    const { locks, told } = engine()
    const lease = await locks.acquire('k', { ttlMs: 300 })
    const { fencingToken } = lease
    for (let round = 0; round < 20; round += 1) {
      await clock.advance(137)
      await lease.renew(300 + round)
      await locks.tryAcquire('k')
      expect(lease.fencingToken).toBe(fencingToken)
      expect((await store.inspect('k'))?.fencingToken).toBe(fencingToken)
    }
    expect(new Set(told.map((event) => event.fencingToken))).toEqual(new Set([fencingToken]))
  })
})

describe('one locks object', () => {
  // B018: token, expiry and timer were fields of one object, and tasks that shared it released and
  // extended each other's hold.
  it('shared by 200 tasks gives each its own lease, and one is inside at a time', async () => {
    for (let round = 0; round < 5; round += 1) {
      const { clock, engine } = openWorld({ seed: round + 1 })
      const { locks, told } = engine()
      let inside = 0
      const leases = new Set<Lease>()
      const task = async (): Promise<void> => {
        const lease = await locks.acquire('k', { ttlMs: 500, waitMs: 60_000 })
        leases.add(lease)
        inside += 1
        expect(inside).toBe(1)
        await new Promise<void>((resolve) => clock.after(50, resolve))
        inside -= 1
        expect(await lease.release()).toBe('released')
      }
      const all = watch(clock, Promise.all(Array.from({ length: 200 }, task)))
      await clock.advance(15_000)
      expect(all.error).toBeUndefined()
      expect(all.state).toBe('resolved')
      expect(new Set([...leases].map(({ owner }) => owner)).size).toBe(200)
      expect(new Set([...leases].map(({ fencingToken }) => fencingToken)).size).toBe(200)
      expect(told.map(({ type }) => type)).not.toContain('lost')
      expect(await timersLeft(clock)).toBe(0)
    }
  })

  // B021: asked through a second handle, a name that was held elsewhere looked free.
  it('shows what the store knows of a name that it never acquired', async () => {
    const { clock, engine } = openWorld()
    const [a, b] = [engine(), engine()]
    const lease = await a.locks.acquire('k', { ttlMs: 60_000, label: 'report', renew: false })
    await clock.advance(1000)
    expect(await b.locks.inspect('k')).toMatchObject({
      lockName: 'k',
      fencingToken: lease.fencingToken,
      remainingMs: 59_000,
      holder: { pid: process.pid, label: 'report' },
      foreignOwner: null,
    })
    expect(JSON.stringify(await b.locks.inspect('k'), String)).not.toContain(lease.owner)
    await lease.release()
    expect(await b.locks.inspect('k')).toBeNull()
  })

  // B059: locks were kept like cache entries, and evicted while they were held.
  it('over a full store refuses with a reason, and drops no lease', async () => {
    const { clock, engine } = openWorld({}, { namesMax: 5 })
    const { locks } = engine()
    const held = await Promise.all([0, 1, 2, 3, 4].map((n) => locks.acquire(`${n}`)))
    for (let count = 0; count < 15; count += 1) {
      const refused = watch(clock, locks.acquire(`more ${count}`, { waitMs: count % 2 ? 0 : 100 }))
      await clock.advance(100)
      expect(refused.error).toMatchObject({ code: 'BACKEND_UNAVAILABLE', why: 'out-of-memory' })
    }
    expect(held.every(({ isHeld }) => isHeld)).toBe(true)
    expect(await locks.tryAcquire('0')).toBeNull()
    await held[3]?.release()
    expect(await locks.tryAcquire('more')).not.toBeNull()
  })
})

describe('nesting', () => {
  // B101: taking the same name again in one flow waited for oneself until the time-out.
  it('on one name is refused at once and by name, and the outer hold goes on', async () => {
    const { clock, engine } = openWorld()
    const { locks, backend } = engine()
    await locks.using('a', async (outer) => {
      for (const nested of [
        () => locks.using('a', { waitMs: 500 }, async () => {}),
        () => locks.acquire('a', { waitMs: 500 }),
        async () => {
          await new Promise((resolve) => setImmediate(resolve))
          await locks.using('b', async () => locks.using('a', async () => {}))
        },
      ]) {
        const atMs = clock.nowMs()
        await expect(nested()).rejects.toMatchObject({ code: 'REENTRANT', lockName: 'a' })
        expect(clock.nowMs()).toBe(atMs)
      }
      expect(outer.isHeld).toBe(true)
      expect(backend.callsOf('tryAcquire').filter(({ lockName }) => lockName === 'a')).toHaveLength(
        1,
      )
    })
    // The flow holds it no more, so it may have it again.
    await locks.using('a', async () => {})
  })

  it('does not confuse a sibling flow, other locks, or a hold that has ended', async () => {
    const { clock, engine } = openWorld()
    const { locks } = engine()
    const other = createLocksWith(seamsOf(clock), memoryBackendWith(seamsOf(clock)))
    const order: string[] = []
    const first = locks.using('a', async () => {
      order.push('first')
      await new Promise<void>((resolve) => clock.after(100, resolve))
      order.push('first ends')
    })
    // Started outside of the flow: a contender like any other, that waits.
    const sibling = locks.using('a', async () => {
      order.push('sibling')
    })
    await clock.advance(200)
    await Promise.all([first, sibling])
    expect(order).toEqual(['first', 'first ends', 'sibling'])
    await locks.using('a', async (lease) => {
      await other.using('a', async () => order.push('other locks'))
      await lease.release()
      await locks.using('a', async () => order.push('again'))
    })
    expect(order.slice(3)).toEqual(['other locks', 'again'])
  })
})
