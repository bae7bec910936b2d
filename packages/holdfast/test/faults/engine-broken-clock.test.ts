import { describe, expect, it, onTestFinished } from 'vitest'
import { memoryBackendWith } from '../../src/backends/memory/memory.ts'
import type { Backend } from '../../src/core/backend.ts'
import type { Lease, Locks } from '../../src/core/lease.ts'
import type { Seams } from '../../src/core/seams.ts'
import { createLocksWith } from '../../src/lock/lock.ts'
import { createVirtualClock, seamsOf, type VirtualClock } from '../../src/testkit/virtual-clock.ts'

const TTL_MS = 1000
/** More readings than the scenario takes. */
const READINGS_MAX = 2000
/** At one point in time, each of them may throw once. */
const TIMERS_THROWN_MAX = 50

class BrokenClock extends Error {}

interface Stand {
  readonly clock: VirtualClock
  /** As it is, for the test itself. */
  readonly seams: Seams
  readonly store: Backend
  readonly locks: Locks
  /** Lets time pass, whatever the engine's timers throw. */
  pass(ms: number): Promise<void>
  /** No further reading throws. @returns Whether one did. */
  mend(): boolean
}

/** The engine's own clock throws once, at its `n`-th call of `method`; the store's does not. */
function open(method: 'nowMs' | 'after', n: number): Stand {
  const clock = createVirtualClock({ seed: n })
  const seams = seamsOf(clock)
  let calls = 0
  const count = (): void => {
    calls += 1
    if (calls === n) throw new BrokenClock()
  }
  const broken: Seams = {
    ...seams,
    nowMs() {
      if (method === 'nowMs') count()
      return seams.nowMs()
    },
    after(delayMs, fn) {
      if (method === 'after') count()
      const cancel = seams.after(delayMs, fn)
      // As the clock of a caller is: without `keepAlive`.
      return () => cancel()
    },
  }
  const store = memoryBackendWith(seams)
  const locks = createLocksWith(broken, store, { ttlMs: TTL_MS })
  return {
    clock,
    seams,
    store,
    locks,
    async pass(ms) {
      let restMs = ms
      for (let thrown = 0; thrown < TIMERS_THROWN_MAX; thrown += 1) {
        try {
          return await clock.advance(restMs)
        } catch (error) {
          if (!(error instanceof BrokenClock)) throw error
          restMs = 0
        }
      }
    },
    mend() {
      const hasThrown = calls >= n
      calls = Number.POSITIVE_INFINITY
      return hasThrown
    },
  }
}

/** Contenders who take turns, a holder whose successor comes late, one who leaves, one who asks once. */
async function work({ locks, seams, pass }: Stand): Promise<Map<string, string>> {
  const states = new Map<string, string>()
  let synchronous = 0
  const go = (who: string, act: () => Promise<unknown>): void => {
    states.set(who, 'pending')
    const settled = (state: string) => () => states.set(who, state)
    act().then(settled('resolved'), settled('rejected'))
  }
  const hold = async (lease: Lease | null, ms: number): Promise<void> => {
    if (lease === null) return
    await new Promise<void>((resolve) => seams.after(ms, resolve))
    let releasing: Promise<unknown>
    try {
      releasing = lease.release()
    } catch {
      // Whatever the clock does, a promise is what a caller expects.
      synchronous += 1
      return
    }
    await releasing
  }
  const leaving = new AbortController()
  for (const who of ['first', 'second', 'third', 'leaving']) {
    const signal = who === 'leaving' ? leaving.signal : undefined
    const options = { waitMs: who === 'second' ? Number.POSITIVE_INFINITY : 3000, signal }
    go(who, async () => hold(await locks.acquire('a', options), 400))
  }
  go('once', async () => hold(await locks.tryAcquire('b'), 500))
  go('refused', async () => hold(await locks.acquire('b', { waitMs: 0 }), 100))
  await pass(100)
  go('late', async () => hold(await locks.acquire('b', { waitMs: 3000 }), 100))
  leaving.abort()
  for (let passed = 0; passed < 5000; passed += 100) await pass(100)
  expect(synchronous).toBe(0)
  return states
}

// The accident: a clock of the caller's own throws once, as a fake one does that was taken away too
// soon; the lock is then renewed for ever by nobody, or its name is never to be had again.
describe.each(['nowMs', 'after'] as const)('a clock whose %s throws once', (method) => {
  it('at any call costs calls, never a name, a caller or the process', async () => {
    const unhandled: unknown[] = []
    const note = (reason: unknown): number => unhandled.push(reason)
    process.on('unhandledRejection', note)
    onTestFinished(() => void process.off('unhandledRejection', note))
    let thrown = 0
    for (let n = 1; n < READINGS_MAX; n += 1) {
      const stand = open(method, n)
      const states = await work(stand)
      const isPending = [...states].filter(([, state]) => state === 'pending')
      if (!stand.mend()) break
      thrown += 1
      expect([n, isPending]).toEqual([n, []])
      await stand.pass(2 * TTL_MS)
      for (const lockName of ['a', 'b']) {
        expect([n, lockName, await stand.store.inspect(lockName)]).toEqual([n, lockName, null])
        const taking = stand.locks.using(lockName, { waitMs: 2000 }, async () => lockName)
        await stand.pass(3000)
        expect(await taking).toBe(lockName)
      }
      expect([n, unhandled]).toEqual([n, []])
    }
    expect(thrown).toBeGreaterThan(10)
  })
})
