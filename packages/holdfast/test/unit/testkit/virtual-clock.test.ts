import { setImmediate as turn } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { InvalidArgumentError } from '../../../src/core/errors.ts'
import { createVirtualClock, seamsOf } from '../../../src/testkit/virtual-clock.ts'

describe('virtual clock', () => {
  // Two timers due in one step that ran in another order, or with one clock for both, would prove
  // a schedule that no real event loop runs.
  it('runs timers in the order of due time and insertion, each at its own time', async () => {
    const clock = createVirtualClock()
    const startMs = clock.nowMs()
    const seen: string[] = []
    const note = (name: string) => () => seen.push(`${name}@${clock.nowMs() - startMs}`)
    clock.after(30, note('late'))
    clock.after(10, note('first'))
    clock.after(10, note('second'))
    clock.after(-5, note('overdue'))
    await clock.advance(20)
    expect(seen).toEqual(['overdue@0', 'first@10', 'second@10'])
    expect(clock.nowMs() - startMs).toBe(20)
    expect(clock.pendingCount).toBe(1)
    await clock.advance(10)
    expect(seen.at(-1)).toBe('late@30')
  })

  // A renewal awaits its answer and arms the next timer: if the step did not let it, a lease would
  // seem to miss renewals that it sends.
  it('lets awaiting code run between two timers, and runs what that code arms', async () => {
    const clock = createVirtualClock()
    const startMs = clock.nowMs()
    const renewedAtMs: number[] = []
    const renew = async (): Promise<void> => {
      await turn()
      await Promise.resolve()
      renewedAtMs.push(clock.nowMs() - startMs)
      clock.after(10, () => void renew())
    }
    clock.after(10, () => void renew())
    await clock.advance(35)
    expect(renewedAtMs).toEqual([10, 20, 30])
  })

  // A cancelled deadline that fires all the same would report a loss after a release.
  it('never runs a cancelled timer, and cancelling twice or too late changes nothing', async () => {
    const clock = createVirtualClock()
    const seen: string[] = []
    const cancel = clock.after(5, () => seen.push('cancelled'))
    const cancelFired = clock.after(5, () => seen.push('fired'))
    const cancelOther = clock.after(6, () => cancelLater())
    const cancelLater = clock.after(7, () => seen.push('cancelled by another timer'))
    cancel()
    cancel()
    await clock.advance(5)
    cancelFired()
    await clock.advance(5)
    cancelOther()
    expect(seen).toEqual(['fired'])
    expect(clock.pendingCount).toBe(0)
  })

  // A suspended laptop: the process must find out by the boot clock, its timers know nothing.
  it('suspends: boot and wall clock go on, the monotonic clock and the timers stand', async () => {
    const clock = createVirtualClock()
    const before = { now: clock.nowMs(), boot: clock.bootMs(), wall: clock.wallMs() }
    let fired = false
    clock.after(10, () => {
      fired = true
    })
    clock.suspend(5000)
    await clock.advance(0)
    expect(fired).toBe(false)
    expect(clock.nowMs() - before.now).toBe(0)
    expect(clock.bootMs() - before.boot).toBe(5000)
    expect(clock.wallMs() - before.wall).toBe(5000)
    await clock.advance(10)
    expect(fired).toBe(true)
  })

  // An operator sets the clock back: nothing that counts durations may notice.
  it('steps the wall clock alone, in both directions', () => {
    const clock = createVirtualClock({ wallMs: 1_000_000 })
    const before = { now: clock.nowMs(), boot: clock.bootMs() }
    clock.stepWall(-400_000)
    expect(clock.wallMs()).toBe(600_000)
    clock.stepWall(500_000)
    expect(clock.wallMs()).toBe(1_100_000)
    expect({ now: clock.nowMs(), boot: clock.bootMs() }).toEqual(before)
  })

  // A long garbage collection: the deadline passes on the clock while no timer can tell.
  it('blocks: every clock goes on and no timer runs until time advances again', async () => {
    const clock = createVirtualClock()
    const startMs = clock.nowMs()
    const seen: number[] = []
    clock.after(20, () => seen.push(clock.nowMs() - startMs))
    clock.after(10, () => seen.push(clock.nowMs() - startMs))
    clock.block(100)
    await turn()
    expect(seen).toEqual([])
    expect(clock.nowMs() - startMs).toBe(100)
    expect(clock.bootMs() - startMs).toBe(100)
    await clock.advance(0)
    expect(seen).toEqual([100, 100])
  })

  // Blocked again by the very timer that runs late: time must not jump back to the step's end.
  it('keeps time that a timer spends blocking', async () => {
    const clock = createVirtualClock()
    const startMs = clock.nowMs()
    const seen: number[] = []
    clock.after(10, () => clock.block(100))
    clock.after(50, () => seen.push(clock.nowMs() - startMs))
    await clock.advance(20)
    expect(seen).toEqual([110])
    expect(clock.nowMs() - startMs).toBe(110)
  })

  // "Wait for ever" is a legal wait; clamped like Node's own timers it would fire after 1 ms.
  it('never fires an infinite delay, keeps a long one, and refuses what is no number', async () => {
    const clock = createVirtualClock()
    const seen: string[] = []
    const cancel = clock.after(Number.POSITIVE_INFINITY, () => seen.push('infinite'))
    clock.after(2 ** 31, () => seen.push('long'))
    await clock.advance(2 ** 31 - 1)
    expect(seen).toEqual([])
    await clock.advance(1)
    expect(seen).toEqual(['long'])
    expect(clock.pendingCount).toBe(1)
    cancel()
    expect(clock.pendingCount).toBe(0)
    expect(() => clock.after(Number.NaN, () => undefined)).toThrow(InvalidArgumentError)
    expect(() => clock.advance(Number.POSITIVE_INFINITY)).toThrow(InvalidArgumentError)
    expect(() => clock.advance(-1)).toThrow(InvalidArgumentError)
    expect(() => clock.suspend(-1)).toThrow(InvalidArgumentError)
    expect(() => clock.stepWall(Number.NaN)).toThrow(InvalidArgumentError)
  })

  // Rounded down, a timer would fire a fraction before its deadline and find it not reached.
  it('rounds a fractional delay up', async () => {
    const clock = createVirtualClock()
    let fired = false
    clock.after(10.2, () => {
      fired = true
    })
    await clock.advance(10.5)
    expect(fired).toBe(false)
    await clock.advance(0.5)
    expect(fired).toBe(true)
  })

  // Two parts of one test both let time pass; interleaved steps would run timers out of order.
  it('queues calls of advance behind each other, also one made by a timer', async () => {
    const clock = createVirtualClock()
    const startMs = clock.nowMs()
    let nested: Promise<void> | undefined
    clock.after(5, () => {
      nested = clock.advance(100)
    })
    const first = clock.advance(10)
    const second = clock.advance(10)
    await first
    expect(clock.nowMs() - startMs).toBe(10)
    await Promise.all([second, nested])
    expect(clock.nowMs() - startMs).toBe(120)
  })

  // A timer that throws would otherwise end the process, or hide in the next step.
  it('rejects with what a timer threw, and goes on at the next step', async () => {
    const clock = createVirtualClock()
    const seen: string[] = []
    clock.after(1, () => {
      throw new Error('from a timer')
    })
    clock.after(2, () => seen.push('next'))
    await expect(clock.advance(5)).rejects.toThrow('from a timer')
    await clock.advance(5)
    expect(seen).toEqual(['next'])
  })

  // A loop without a pause: in virtual time it never ends, and the test run would hang without a word.
  it('refuses timers that arm each other without any time passing', async () => {
    const clock = createVirtualClock()
    let runs = 0
    const spin = (): void => {
      runs += 1
      clock.after(0, spin)
    }
    spin()
    await expect(clock.advance(10)).rejects.toThrow('arm each other')
    expect(runs).toBe(30_001)
    let steps = 0
    const calm = createVirtualClock()
    calm.after(1, function walk() {
      steps += 1
      if (steps < 2000) calm.after(1, walk)
    })
    await calm.advance(3000)
    expect(steps).toBe(2000)
  })

  // A failing seed must fail again tomorrow.
  it('draws the same jitter and owners from the same seed, and others from another', () => {
    const draw = (seed: number) => {
      const seams = seamsOf(createVirtualClock({ seed }))
      return Array.from({ length: 1000 }, () => [seams.nonce(), seams.jitter()] as const)
    }
    const [one, again, two] = [draw(1), draw(1), draw(2)]
    expect(again).toEqual(one)
    const nonces = new Set([...one, ...two].map(([nonce]) => nonce))
    expect(nonces.size).toBe(2000)
    for (const nonce of nonces) expect(nonce).toMatch(/^[A-Za-z0-9_-]{22}$/)
    const jitters = one.map(([, jitter]) => jitter)
    expect(jitters.every((jitter) => jitter >= 0 && jitter < 1)).toBe(true)
    const mean = jitters.reduce((sum, jitter) => sum + jitter, 0) / jitters.length
    expect(mean).toBeGreaterThan(0.45)
    expect(mean).toBeLessThan(0.55)
  })

  it('fixes the jitter where a test wants exact times', () => {
    const seams = seamsOf(createVirtualClock({ jitter: 0.25 }))
    expect([seams.jitter(), seams.jitter()]).toEqual([0.25, 0.25])
    expect(() => createVirtualClock({ jitter: 1 })).toThrow(InvalidArgumentError)
    expect(() => createVirtualClock({ seed: 0.5 })).toThrow(InvalidArgumentError)
  })

  // A foreign clock cannot tell boot time; taking it for ours would hide every suspend.
  it('gives seams only of its own clocks', () => {
    const clock = createVirtualClock()
    const seams = seamsOf(clock)
    clock.suspend(50)
    expect(seams.bootMs() - seams.nowMs()).toBe(50)
    expect(seams.wallMs()).toBe(clock.wallMs())
    expect(() => seamsOf({ nowMs: () => 0, after: () => () => undefined })).toThrow(
      InvalidArgumentError,
    )
  })
})
