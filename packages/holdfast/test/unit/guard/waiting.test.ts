import { describe, expect, it } from 'vitest'
import { Deadlines, type Wait } from '../../../src/guards/postgres/deadlines.ts'
import { Bound, onLoss } from '../../../src/guards/shared/bound.ts'
import { Turns } from '../../../src/guards/shared/turns.ts'
import { fakeLocks, loseLease } from '../../../src/testkit/fake-locks.ts'
import { createVirtualClock, seamsOf } from '../../../src/testkit/virtual-clock.ts'

const PLAIN = { lockName: 'k', fencingToken: 5n, owner: 'a-owner-of-the-suite_1', source: 's' }

describe('the bound of a call', () => {
  it('of a plain holder is the option, counted from the call', async () => {
    const clock = createVirtualClock()
    const bound = new Bound(PLAIN, 500, seamsOf(clock))
    expect([bound.limitMs(), bound.remainingMs(), bound.signal]).toEqual([500, 500, undefined])
    await clock.advance(400)
    expect([bound.limitMs(), bound.remainingMs()]).toEqual([500, 100])
    await clock.advance(400)
    expect([bound.limitMs(), bound.remainingMs(), bound.loss()]).toEqual([500, 0, null])
  })

  // A time-out of 0 means none: a holder with less than a millisecond left would never be cut.
  it('of a lease is what is left of it, and never 0 for the server', async () => {
    const clock = createVirtualClock()
    const locks = fakeLocks({ clock, renew: false })
    const lease = await locks.acquire('k', { ttlMs: 1000 })
    const bound = new Bound(lease, 10_000, seamsOf(clock))
    const lifeMs = lease.remainingMs()
    expect(bound.limitMs()).toBe(Math.floor(lifeMs))
    await clock.advance(lifeMs - 0.5)
    expect(bound.limitMs()).toBe(1)
    expect(bound.loss()).toBeNull()
    expect(bound.loss(2)).not.toBeNull()
    await clock.advance(1)
    expect(bound.limitMs()).toBe(1)
    expect(bound.loss()?.error).toMatchObject({ code: 'LEASE_LOST' })
    expect(() => bound.assertValid()).toThrow(expect.objectContaining({ code: 'LEASE_LOST' }))
  })

  it('tells every call of a lease of its loss, and none that has ended', async () => {
    const locks = fakeLocks()
    const lease = await locks.acquire('k')
    const seams = seamsOf(createVirtualClock())
    const told: string[] = []
    const watch = (name: string): (() => void) =>
      onLoss(new Bound(lease, 10_000, seams), () => told.push(name))
    watch('a')
    const end = watch('b')
    watch('c')
    end()
    loseLease(lease, 'revoked')
    expect(told).toEqual(['a', 'c'])
    await locks.close()
  })
})

describe('one timer for all waits', () => {
  it('ends each at its own time, whatever the order in which they began', async () => {
    const clock = createVirtualClock()
    const deadlines = new Deadlines(seamsOf(clock))
    const ended: [string, number][] = []
    const beganAtMs = clock.nowMs()
    const wait = (name: string, withinMs: number): Wait => {
      const own = { untilMs: 0, onEnd: () => ended.push([name, clock.nowMs() - beganAtMs]) }
      deadlines.start(own, withinMs)
      return own
    }
    wait('late', 300)
    wait('early', 100)
    const answered = wait('answered', 200)
    wait('middle', 200)
    await clock.advance(150)
    deadlines.stop(answered)
    await clock.advance(1000)
    expect(ended).toEqual([
      ['early', 100],
      ['middle', 200],
      ['late', 300],
    ])
    expect(clock.pendingCount).toBe(0)
  })

  it('is armed once for waits that end early one after the other', async () => {
    const clock = createVirtualClock()
    const deadlines = new Deadlines(seamsOf(clock))
    const own = { untilMs: 0, onEnd: () => expect.unreachable() }
    for (let round = 0; round < 100; round++) {
      deadlines.start(own, 500)
      await clock.advance(20)
      deadlines.stop(own)
      expect(clock.pendingCount).toBeLessThanOrEqual(1)
    }
    await clock.advance(1000)
    expect(clock.pendingCount).toBe(0)
  })

  it('is armed anew by a wait that another one begins when it ends', async () => {
    const clock = createVirtualClock()
    const deadlines = new Deadlines(seamsOf(clock))
    const ended: number[] = []
    const beganAtMs = clock.nowMs()
    const own: Wait = {
      untilMs: 0,
      onEnd: () => {
        ended.push(clock.nowMs() - beganAtMs)
        if (ended.length < 3) deadlines.start(own, 50)
      },
    }
    deadlines.start(own, 100)
    await clock.advance(1000)
    expect(ended).toEqual([100, 150, 200])
  })
})

describe('turns', () => {
  const clock = createVirtualClock()
  const seams = seamsOf(clock)
  const bound = (): Bound => new Bound(PLAIN, 1000, seams)
  const never = (): Promise<never> => new Promise(() => undefined)

  it('are given in the order of asking, and passed on by a call that fails', async () => {
    const turns = new Turns(seams)
    const order: number[] = []
    const calls = [0, 1, 2, 3].map((index) =>
      turns.run('k', 'k', bound(), async () => {
        order.push(index)
        await clock.advance(1)
        if (index === 1) throw new RangeError('own')
      }),
    )
    const settled = await Promise.allSettled(calls)
    expect(order).toEqual([0, 1, 2, 3])
    expect(settled.map(({ status }) => status)).toEqual([
      'fulfilled',
      'rejected',
      'fulfilled',
      'fulfilled',
    ])
  })

  it('of other leases and resources do not wait', async () => {
    const turns = new Turns(seams)
    void turns.run('k', 'k', bound(), never)
    expect(await turns.run('l', 'l', bound(), async () => 'free')).toBe('free')
  })

  // A call that never ends must not keep those behind it for ever.
  it('are waited for no longer than the call may take', async () => {
    const turns = new Turns(seams)
    void turns.run('k', 'k', bound(), never)
    const waiting = Promise.allSettled([turns.run('k', 'k', bound(), async () => 1)])
    await clock.advance(999)
    await clock.advance(2)
    const [refused] = await waiting
    expect(refused).toMatchObject({ status: 'rejected', reason: { code: 'GUARD_BUSY' } })
    expect(clock.pendingCount).toBe(0)
  })

  it('are waited for as long as a lease is renewed, and not after its loss', async () => {
    const own = createVirtualClock()
    const locks = fakeLocks({ clock: own })
    const lease = await locks.acquire('k', { ttlMs: 1000 })
    const turns = new Turns(seamsOf(own))
    const ofLease = (): Bound => new Bound(lease, 100, seamsOf(own))
    void turns.run('k', 'k', ofLease(), never)
    let settled: unknown = null
    const note = (value: unknown): void => {
      settled = value
    }
    turns.run('k', 'k', ofLease(), async () => 1).then(note, note)
    await own.advance(5000)
    expect(settled).toBeNull()
    loseLease(lease, 'superseded')
    await own.advance(0)
    expect(settled).toMatchObject({ code: 'LEASE_LOST' })
    await locks.close()
  })

  // A timer, or a queue of the application's that was first used inside of a call, keeps its context for ever.
  it('are given to what a call left running after its end, while another one runs', async () => {
    const turns = new Turns(seams)
    const run = (call: () => Promise<unknown>) => turns.run('k', 'k', bound(), call)
    let begin = (): void => undefined
    let left: Promise<unknown> = Promise.resolve()
    await run(async () => {
      const begins = new Promise<void>((resolve) => {
        begin = resolve
      })
      left = begins.then(() => run(async () => 'served'))
    })
    let end = (): void => undefined
    const other = run(() => new Promise<void>((resolve) => (end = resolve)))
    begin()
    await clock.advance(1)
    end()
    await other
    await expect(left).resolves.toBe('served')
  })

  it('are refused inside of a call of the same key, at any depth', async () => {
    const turns = new Turns(seams)
    const run = (key: string, call: () => Promise<unknown>) => turns.run(key, key, bound(), call)
    const inside = run('k', () => run('l', () => run('k', never)))
    await expect(inside).rejects.toMatchObject({ code: 'REENTRANT' })
    await expect(run('k', async () => 'free')).resolves.toBe('free')
  })

  it('are refused when too many wait', async () => {
    const turns = new Turns(seams)
    void turns.run('k', 'k', bound(), never)
    const waiting = Array.from({ length: 1000 }, () => turns.run('k', 'k', bound(), async () => 1))
    const all = Promise.allSettled(waiting)
    await expect(turns.run('k', 'k', bound(), async () => 1)).rejects.toMatchObject({
      code: 'BACKEND_UNAVAILABLE',
      why: 'backlog',
    })
    await clock.advance(1001)
    expect((await all).every(({ status }) => status === 'rejected')).toBe(true)
  })
})
