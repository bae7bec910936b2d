import { describe, expect, it, vi } from 'vitest'
import { memoryBackendWith } from '../../../src/backends/memory/memory.ts'
import type { AcquireResult, Backend } from '../../../src/core/backend.ts'
import type { LossReason } from '../../../src/core/errors.ts'
import type { Locks } from '../../../src/core/lease.ts'
import { createLocksWith } from '../../../src/lock/lock.ts'
import {
  createVirtualClock,
  seamsOf,
  type VirtualClock,
} from '../../../src/testkit/virtual-clock.ts'

type World = { clock: VirtualClock; store: Backend; locks: Locks; events: string[] }

/** An engine over the memory store, whose `tryAcquire` the test may stand in front of. */
function open(
  intercept: (store: Backend, clock: VirtualClock) => Partial<Backend> = () => ({}),
): World {
  const clock = createVirtualClock({ jitter: 0 })
  const seams = seamsOf(clock)
  const store = memoryBackendWith(seams)
  const own = intercept(store, clock)
  const backend = new Proxy(store, {
    get: (target, key) => {
      const value = own[key as keyof Backend] ?? target[key as keyof Backend]
      return typeof value === 'function' ? value.bind(key in own ? own : target) : value
    },
    set: (target, key, value) => Reflect.set(target, key, value),
  })
  const locks = createLocksWith(seams, backend)
  const events: string[] = []
  for (const type of ['lost', 'released', 'renewed', 'cancelled'] as const) {
    locks.on(type, () => events.push(type))
  }
  return { clock, store, locks, events }
}

describe('an attempt', () => {
  // The event loop was blocked while the grant was on its way; its time-out had no turn to run.
  it('never returns a grant whose validity is spent, and takes it back', async () => {
    const { clock, store, locks, events } = open((inner, time) => ({
      tryAcquire: async (request) => {
        const result = await inner.tryAcquire(request)
        time.block(850)
        return result
      },
    }))
    const asked = locks.tryAcquire('late', { ttlMs: 1000 })
    await expect(asked).rejects.toMatchObject({ code: 'OUTCOME_UNKNOWN' })
    await clock.advance(1)
    expect(events).toEqual(['cancelled'])
    expect(await store.inspect('late')).toBeNull()
  })

  // A clock of the caller's threw when the time-out was set: the request had left, its grant came, and
  // stayed in the store for its whole TTL.
  it('is taken back when the clock cannot set its time-out', async () => {
    for (const throws of [1, 2, 3, Number.POSITIVE_INFINITY]) {
      const clock = createVirtualClock({ jitter: 0 })
      const seams = seamsOf(clock)
      let left = 0
      const after: typeof seams.after = (...args) => {
        if (left-- > 0) throw new Error('no timer')
        return seams.after(...args)
      }
      const store = memoryBackendWith(seams)
      const asked = vi.spyOn(store, 'tryAcquire')
      const locks = createLocksWith({ ...seams, after }, store)
      left = throws
      await expect(locks.tryAcquire('k', { ttlMs: 1000 })).rejects.toThrow('no timer')
      expect(asked).toHaveBeenCalledTimes(1)
      left = 0
      await clock.advance(1)
      expect(await store.inspect('k')).toBeNull()
      // What was added while it threw must not keep later timers from being set.
      const lease = await locks.acquire('k', { ttlMs: 1000 })
      await clock.advance(3000)
      expect(lease.isHeld).toBe(true)
      await locks.close()
      expect(await store.inspect('k')).toBeNull()
    }
  })

  it('returns a grant with just the least rest of validity', async () => {
    const { locks } = open((inner, time) => ({
      tryAcquire: async (request) => {
        const result = await inner.tryAcquire(request)
        time.block(788)
        return result
      },
    }))
    const lease = await locks.tryAcquire('early', { ttlMs: 1000 })
    expect(lease?.remainingMs()).toBe(100)
  })

  // A store that pushes bad news may do so before the answer itself is read.
  it('is no lease when the store reported its loss before the grant was read', async () => {
    const { locks } = open((inner) => ({
      tryAcquire: async (request) => {
        const result = await inner.tryAcquire(request)
        request.onLost('revoked')
        return result
      },
    }))
    await expect(locks.tryAcquire('gone')).rejects.toMatchObject({ code: 'OUTCOME_UNKNOWN' })
  })

  it('makes the lease lost when the store says so, once', async () => {
    let tell = (_reason: LossReason): void => {}
    const { locks, events } = open((inner) => ({
      tryAcquire: (request) => {
        tell = request.onLost
        return inner.tryAcquire(request)
      },
    }))
    const lease = await locks.acquire('told')
    tell('revoked')
    tell('superseded')
    expect(lease.signal.reason).toMatchObject({ reason: 'revoked' })
    expect(events).toEqual(['lost'])
    expect(await lease.release()).toBe('not-held')
    expect(events).toEqual(['lost'])
  })

  it('leaves a released lease released, whatever the store says later', async () => {
    let tell = (_reason: LossReason): void => {}
    const { locks, events } = open((inner) => ({
      tryAcquire: (request) => {
        tell = request.onLost
        return inner.tryAcquire(request)
      },
    }))
    const lease = await locks.acquire('told')
    const { signal } = lease
    await lease.release()
    tell('revoked')
    expect(signal.aborted).toBe(false)
    expect(events).toEqual(['released'])
  })
})

describe('a contender', () => {
  // The release came while the head's own request was under way, executed before it: the refusal is
  // older than the release, and nobody else will wake the line.
  it('asks again at once when a release came while its attempt was in flight', async () => {
    let hold: (() => void) | null = null
    let calls = 0
    const { clock, locks } = open((inner) => ({
      tryAcquire: async (request) => {
        calls += 1
        const result: AcquireResult = await inner.tryAcquire(request)
        if (calls === 2) await new Promise<void>((resolve) => (hold = resolve))
        return result
      },
      wakeUp: (_lockName, signal) =>
        new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve())),
    }))
    const first = await locks.acquire('passed', { ttlMs: 10_000 })
    const waiting = locks.acquire('passed', { ttlMs: 10_000 })
    // The line polls once a second while our own lease holds the name.
    await clock.advance(1000)
    expect(calls).toBe(2)
    await first.release()
    hold!()
    await clock.advance(20)
    const second = await waiting
    expect(second.fencingToken).toBeGreaterThan(first.fencingToken)
  })
})
