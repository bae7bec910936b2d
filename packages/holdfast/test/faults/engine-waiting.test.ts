import { getEventListeners } from 'node:events'
import { describe, expect, it, onTestFinished } from 'vitest'
import { memoryBackendWith } from '../../src/backends/memory/memory.ts'
import { BackendUnavailableError } from '../../src/core/errors.ts'
import type { Lease } from '../../src/core/lease.ts'
import { createLocksWith } from '../../src/lock/lock.ts'
import { createVirtualClock, seamsOf } from '../../src/testkit/virtual-clock.ts'
import { delayed, gate, lostRequest, refusedWith } from '../support/faulty-backend.ts'
import { codeOf, openWorld, timersLeft, watch } from '../support/open-engine.ts'

const FOREVER = Number.POSITIVE_INFINITY
const DOWN = refusedWith(new BackendUnavailableError('down', 'connection refused'))

describe('contenders', () => {
  // B067: after an outage all waiters asked in step, the store stayed overloaded and some never won.
  it('of one process ask through one head, and each of 200 wins with few attempts', async () => {
    const { clock, store, engine } = openWorld({ seed: 7 })
    const { locks, backend } = engine()
    let inside = 0
    const work = async (): Promise<void> => {
      const lease = await locks.acquire('k', { ttlMs: 2000, waitMs: 60_000 })
      inside += 1
      expect(inside).toBe(1)
      await new Promise<void>((resolve) => clock.after(5, resolve))
      inside -= 1
      await lease.release()
    }
    const all = watch(clock, Promise.all(Array.from({ length: 200 }, work)))
    await clock.advance(2000)
    expect(all.state).toBe('resolved')
    // One request passes the lock on; now and then the head asks for itself.
    expect(backend.calls.length).toBeLessThan(220)
    expect(await store.inspect('k')).toBeNull()
    expect(await timersLeft(clock)).toBe(0)
  })

  // The same over processes: each asks the store, and all are told of one release.
  it('of eight processes all win, one at a time, with fewer than five attempts each', async () => {
    const { clock, engine } = openWorld({ seed: 11 })
    const engines = Array.from({ length: 8 }, () => engine())
    let inside = 0
    const work = async ({ locks }: (typeof engines)[0]): Promise<void> => {
      for (let round = 0; round < 25; round += 1) {
        const lease = await locks.acquire('k', { ttlMs: 2000, waitMs: 60_000 })
        inside += 1
        expect(inside).toBe(1)
        await new Promise<void>((resolve) => clock.after(5, resolve))
        inside -= 1
        await lease.release()
      }
    }
    const all = watch(clock, Promise.all(engines.map(work)))
    await clock.advance(60_000)
    expect(all.state).toBe('resolved')
    const asked = engines.flatMap(({ backend }) => backend.callsOf('tryAcquire')).length
    expect(asked / 200).toBeLessThan(8)
  })

  // Two callers who took turns passed the lock to and fro for ever, and no other process got in.
  it('who take turns in one process do not starve another process', async () => {
    const { clock, engine } = openWorld()
    const ours = engine()
    const theirs = engine()
    let turns = 0
    let stop = false
    const caller = async (): Promise<void> => {
      while (!stop) {
        const lease = await ours.locks.acquire('k', { ttlMs: 10_000, waitMs: FOREVER })
        turns += 1
        await new Promise<void>((resolve) => clock.after(20, resolve))
        await lease.release()
      }
    }
    const callers = [caller(), caller()]
    await clock.advance(500)
    const theirTurn = watch(clock, theirs.locks.acquire('k', { ttlMs: 10_000, waitMs: 30_000 }))
    await clock.advance(3000)
    expect(theirTurn.state).toBe('resolved')
    const before = turns
    await theirTurn.value!.release()
    await clock.advance(3000)
    // Nor are they starved themselves.
    expect(turns).toBeGreaterThan(before + 100)
    stop = true
    await clock.advance(5000)
    await Promise.all(callers)
  })

  // B068: the jitter vanished at the cap, so the longest waiters asked in step.
  it('spread by a quarter of the delay at least, also when the delay has reached its cap', async () => {
    const { clock, engine } = openWorld({ seed: 5 })
    const failing = engine()
    failing.backend.always('tryAcquire', DOWN)
    const watched = watch(clock, failing.locks.acquire('down', { waitMs: 1_000_000 }))
    const holder = engine()
    const refused = engine({ without: ['wakeUp'] })
    await holder.locks.acquire('busy', { ttlMs: 3_600_000, renew: false })
    const waiting = watch(clock, refused.locks.acquire('busy', { waitMs: 1_000_000 }))
    await clock.advance(1_000_001)
    expect(watched.error).toMatchObject({ code: 'BACKEND_UNAVAILABLE' })
    expect(waiting.error).toMatchObject({ code: 'LOCK_HELD' })
    for (const [{ backend }, capMs] of [
      [failing, 2000],
      [refused, 1000],
    ] as const) {
      const atMs = backend.callsOf('tryAcquire').map((call) => call.atMs)
      const delays = atMs.slice(1).map((at, index) => at - (atMs[index] as number))
      const late = delays.slice(10)
      expect(late.length).toBeGreaterThan(300)
      expect(Math.min(...late)).toBeGreaterThanOrEqual(capMs)
      expect(Math.max(...late)).toBeLessThanOrEqual(capMs * 1.25 + 1)
      expect(Math.max(...late) - Math.min(...late)).toBeGreaterThan(capMs * 0.23)
    }
    const first = failing.backend.callsOf('tryAcquire').slice(0, 4)
    const gaps = first.slice(1).map(({ atMs }, index) => atMs - (first[index]?.atMs as number))
    for (const [index, gap] of gaps.entries()) {
      expect(gap).toBeGreaterThanOrEqual(50 * 2 ** index)
      expect(gap).toBeLessThanOrEqual(50 * 2 ** index * 1.25 + 1)
    }
  })

  // B067, second part: the store was gone for a while, and those who waited stayed asleep.
  it('who wait without limit win when a dead store comes back, within one delay of the cap', async () => {
    for (const outage of [DOWN, lostRequest]) {
      const { clock, engine } = openWorld()
      const { locks, backend } = engine()
      backend.always('tryAcquire', outage)
      backend.always('cancel', outage)
      const waiting = Array.from({ length: 50 }, () =>
        watch(clock, locks.acquire('k', { ttlMs: 5000, waitMs: FOREVER })),
      )
      await clock.advance(600_000)
      expect(waiting.every(({ state }) => state === 'pending')).toBe(true)
      backend.always('tryAcquire', null)
      backend.always('cancel', null)
      await clock.advance(4600)
      for (const one of waiting) {
        expect(one.state).toBe('resolved')
        await (one.value as Lease).release()
        await clock.advance(0)
      }
      expect(await timersLeft(clock)).toBe(0)
    }
  })

  // Ten thousand requests waited, and each had a timer and a place in a list that was searched.
  it('can be ten thousand in one line, leave in any order, and leave nothing behind', async () => {
    const { clock, store, engine } = openWorld({ seed: 2 })
    const { locks, backend } = engine()
    const holder = await locks.acquire('k', { ttlMs: 60_000 })
    const warnings: Error[] = []
    const onWarning = (warning: Error): unknown => warnings.push(warning)
    process.on('warning', onWarning)
    onTestFinished(() => {
      process.off('warning', onWarning)
    })
    const aborter = new AbortController()
    const waiting = Array.from({ length: 10_000 }, (_, index) =>
      watch(
        clock,
        locks.acquire('k', {
          ttlMs: 60_000,
          waitMs: index % 3 === 0 ? 1000 + (index % 700) : FOREVER,
          signal: index % 3 === 1 ? aborter.signal : undefined,
        }),
      ),
    )
    expect(getEventListeners(aborter.signal, 'abort')).toHaveLength(1)
    await clock.advance(500)
    aborter.abort('left')
    await clock.advance(2000)
    expect(getEventListeners(aborter.signal, 'abort')).toHaveLength(0)
    const states = waiting.map(({ state }) => state)
    expect(states.filter((state) => state === 'rejected')).toHaveLength(6667)
    // The head asked a few times; nobody else did.
    expect(backend.callsOf('tryAcquire').length).toBeLessThan(6)
    // A signal that many calls share carries one listener of ours, or Node warns of a leak.
    expect(warnings).toEqual([])
    await locks.close()
    await clock.advance(1)
    expect(waiting.every(({ state }) => state === 'rejected')).toBe(true)
    expect(holder.isHeld).toBe(false)
    expect(await store.inspect('k')).toBeNull()
    expect(await timersLeft(clock)).toBe(0)
  })

  // First in, first out: whoever had waited longest was overtaken by those who came last.
  it('with different options are served in the order in which they came', async () => {
    const { clock, engine } = openWorld()
    const { locks } = engine()
    const holder = await locks.acquire('k', { ttlMs: 1000 })
    const order: number[] = []
    const options = [
      { ttlMs: 500, waitMs: 60_000 },
      { ttlMs: 60_000, waitMs: FOREVER, renew: false },
      { ttlMs: 100, waitMs: 50_000, lockDelayMs: 100 },
      { ttlMs: 3000, waitMs: 40_000, minHoldMs: 200 },
      { ttlMs: 2000, waitMs: 30_000, maxHoldMs: 2500 },
      { ttlMs: 1000, waitMs: 60_000, label: 'last' },
    ]
    const all = options.map(async (own, index) => {
      const lease = await locks.acquire('k', own)
      order.push(index)
      expect(lease.remainingMs()).toBeGreaterThan(0.6 * own.ttlMs)
      await new Promise<void>((resolve) => clock.after(40, resolve))
      await lease.release()
    })
    await clock.advance(10)
    await holder.release()
    await clock.advance(3000)
    await Promise.all(all)
    expect(order).toEqual([0, 1, 2, 3, 4, 5])
  })

  // B063 without a network: released between the refusal and the moment the waiter began to listen.
  it('learn of a release that happens while their attempt is in flight', async () => {
    const { clock, engine } = openWorld()
    const ours = engine()
    const theirs = engine()
    const holder = await ours.locks.acquire('k', { ttlMs: 30_000 })
    const asking = gate()
    theirs.backend.next('tryAcquire', asking.fault)
    const waiting = watch(clock, theirs.locks.acquire('k', { ttlMs: 1000 }))
    await clock.advance(1)
    await asking.arrive()
    await holder.release()
    await asking.answer()
    await clock.advance(15)
    expect(waiting.state).toBe('resolved')
  })

  // A subscription that fails, or hints that come for no reason, must cost time at most.
  it('go on without hints, and with hints that have no cause, at a bounded pace', async () => {
    const sleepy = async (): Promise<void> => {}
    for (const hint of [refusedWith(new Error('no subscriber')), sleepy]) {
      const { clock, engine } = openWorld()
      const ours = engine()
      const theirs = engine()
      theirs.backend.always('wakeUp', hint)
      const holder = await ours.locks.acquire('k', { ttlMs: 30_000 })
      const waiting = watch(clock, theirs.locks.acquire('k', { ttlMs: 1000, waitMs: 60_000 }))
      await clock.advance(3000)
      expect(theirs.backend.callsOf('tryAcquire').length).toBeLessThanOrEqual(3001)
      await holder.release()
      await clock.advance(1300)
      expect(waiting.state).toBe('resolved')
    }
  })

  // Another process waited, we let the name go for its sake, and our own wake-up told us of that
  // release before the other had its turn.
  it.each([5, 100])(
    'let another process go first, %i of them, after a turn of each or 64',
    async (count) => {
      const { clock, engine } = openWorld({ seed: 9 })
      const ours = engine()
      const theirs = engine()
      // Refused by a foreign holder, our line listens; then that holder's entry ends without a word.
      await engine().locks.acquire('k', { ttlMs: 300, renew: false })
      let turns = 0
      let stop = false
      const caller = async (): Promise<void> => {
        while (!stop) {
          const lease = await ours.locks.acquire('k', { ttlMs: 10_000, waitMs: FOREVER })
          turns += 1
          await new Promise<void>((resolve) => clock.after(20, resolve))
          await lease.release()
        }
      }
      const callers = Array.from({ length: count }, caller)
      await clock.advance(1400)
      expect(turns).toBeGreaterThan(0)
      theirs.backend.always('tryAcquire', delayed(seamsOf(clock), 2, 2))
      const before = turns
      const theirTurn = watch(clock, theirs.locks.acquire('k', { ttlMs: 10_000, waitMs: 60_000 }))
      await clock.advance(2000)
      expect(theirTurn.state).toBe('resolved')
      // As many as stood in our line, and the one that held.
      expect(turns - before).toBeLessThanOrEqual(Math.min(count, 64) + 1)
      await theirTurn.value?.release()
      stop = true
      await clock.advance(1000 + 40 * count)
      await Promise.all(callers)
    },
  )

  // A bug of ours in the part that serves a line left everybody in it asleep, and those who came after.
  it('are told of a bug of ours in serving them, and those who come later are served', async () => {
    const clock = createVirtualClock()
    const seams = seamsOf(clock)
    const bug = new Error('a bug of ours')
    let isBroken = false
    const jitter = (): number => {
      if (isBroken) throw bug
      return 0.5
    }
    const store = memoryBackendWith(seams)
    const foreign = createLocksWith(seams, store)
    const locks = createLocksWith({ ...seams, jitter }, store)
    const holder = await foreign.acquire('k', { ttlMs: 60_000 })
    const first = watch(clock, locks.acquire('k', { waitMs: FOREVER }))
    const second = watch(clock, locks.acquire('k', { waitMs: FOREVER }))
    await clock.advance(10)
    isBroken = true
    await clock.advance(2000)
    expect([first.error, second.error]).toEqual([bug, bug])
    isBroken = false
    const third = watch(clock, locks.acquire('k', { waitMs: FOREVER }))
    await clock.advance(10)
    await holder.release()
    await clock.advance(20)
    expect(third.state).toBe('resolved')
    await third.value?.release()
    expect(await timersLeft(clock)).toBe(0)
  })

  // A wait of the head failed for its own options alone, and the others were told its error.
  it('are not told the mistake of another contender, nor made to wait for it', async () => {
    const { clock, engine } = openWorld()
    const { locks, backend } = engine()
    const mistake = new TypeError('not a function')
    backend.next('tryAcquire', refusedWith(mistake))
    const head = watch(clock, locks.acquire('k', { waitMs: 5000 }))
    const behind = watch(clock, locks.acquire('k', { waitMs: 40 }))
    await clock.advance(1)
    expect(head.error).toBe(mistake)
    expect(behind.state).toBe('resolved')
    expect(await codeOf(locks.acquire('k', { waitMs: 0 }))).toBe('LOCK_HELD')
  })
})
