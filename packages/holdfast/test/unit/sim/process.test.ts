import { describe, expect, it } from 'vitest'
import { Process } from '../../../src/sim/process.ts'
import { Random } from '../../../src/sim/random.ts'
import { Scheduler } from '../../../src/sim/scheduler.ts'

function born(rate = 1): { scheduler: Scheduler; process: Process; said: string[] } {
  const scheduler = new Scheduler(true)
  const process = new Process('p1', scheduler, new Random(1), rate)
  return { scheduler, process, said: [] }
}

const nothing = (): void => undefined

describe('a schedule', () => {
  it('runs events by time, and those of one time in the order in which they came', async () => {
    const scheduler = new Scheduler(false)
    const order: string[] = []
    const at = (atMs: number, name: string) =>
      scheduler.at(atMs, () => order.push(`${name}@${scheduler.nowMs}`))
    for (const [place, atMs] of [5, 3, 9, 3, 1, 7, 3].entries()) at(atMs, `e${place}`)
    at(11, 'never')
    await scheduler.run(10, nothing)
    expect(order).toEqual(['e4@1', 'e1@3', 'e3@3', 'e6@3', 'e0@5', 'e5@7', 'e2@9'])
    expect([scheduler.count, scheduler.nowMs]).toEqual([7, 10])
  })

  it('lets all promises settle between two events', async () => {
    const scheduler = new Scheduler(false)
    const order: string[] = []
    scheduler.at(1, () => {
      void (async () => {
        for (let turn = 0; turn < 50; turn++) await null
        order.push('settled')
      })()
    })
    scheduler.at(1, () => order.push('next'))
    await scheduler.run(1, nothing)
    expect(order).toEqual(['settled', 'next'])
  })
})

describe('a process', () => {
  it('has clocks that run at its own rate', async () => {
    const { scheduler, process } = born(1.01)
    const { seams } = process
    const before = [seams.nowMs(), seams.bootMs(), seams.wallMs()]
    let firedAtMs = 0
    seams.after(101, () => {
      firedAtMs = scheduler.nowMs
    })
    await scheduler.run(1000, nothing)
    expect(seams.nowMs() - (before[0] as number)).toBeCloseTo(1010, 6)
    expect(seams.bootMs() - (before[1] as number)).toBe(1010)
    expect(seams.wallMs() - (before[2] as number)).toBeCloseTo(1010, 3)
    expect(firedAtMs).toBeCloseTo(100, 3)
  })

  it('that is paused runs nothing, and then all of it, timers before messages', async () => {
    const { scheduler, process, said } = born()
    process.deliver(20, () => said.push('message'))
    process.seams.after(30, () => said.push('timer'))
    process.seams.after(10, () => process.pause(100))
    await scheduler.run(109, nothing)
    expect(said).toEqual([])
    expect(process.seams.nowMs()).toBe(1109)
    await scheduler.run(200, nothing)
    expect(said).toEqual(['timer', 'message'])
  })

  it('that is suspended keeps its monotonic clock, and its boot clock goes on', async () => {
    const { scheduler, process } = born()
    let firedAtMs = 0
    process.seams.after(50, () => {
      firedAtMs = scheduler.nowMs
    })
    scheduler.at(20, () => process.suspend(100))
    await scheduler.run(70, nothing)
    expect([process.seams.nowMs(), process.seams.bootMs()]).toEqual([1020, 1070])
    await scheduler.run(200, nothing)
    expect([process.seams.nowMs(), process.seams.bootMs()]).toEqual([1100, 1200])
    expect(firedAtMs).toBeCloseTo(150, 3)
  })

  // Seed 35514 of `clocks`: 782 ms of sleep and a step of -785 ms, which an engine cannot tell from nothing.
  it('never has a sleep undone by its wall clock, and steps otherwise as it is asked to', async () => {
    const { scheduler, process } = born()
    process.suspend(100)
    await scheduler.run(200, nothing)
    for (const [askedMs, playedMs] of [
      [-92, -112],
      [-108, -128],
      [-89, -89],
      [-111, -111],
    ] as const) {
      const wallMs = process.seams.wallMs()
      process.stepWall(askedMs)
      expect(process.seams.wallMs() - wallMs).toBe(playedMs)
    }
  })

  it('that is dead runs nothing again', async () => {
    const { scheduler, process, said } = born()
    process.deliver(20, () => said.push('message'))
    process.seams.after(30, () => said.push('timer'))
    scheduler.at(10, () => process.die())
    await scheduler.run(100, nothing)
    expect(said).toEqual([])
  })

  it('cancels a timer, and never runs an endless one', async () => {
    const { scheduler, process, said } = born()
    process.seams.after(10, () => said.push('cancelled'))()
    process.seams.after(Number.POSITIVE_INFINITY, () => said.push('endless'))
    await scheduler.run(10_000, nothing)
    expect(said).toEqual([])
  })

  it('has a wall clock that may step alone, and remembers when a nonce was made', async () => {
    const { scheduler, process } = born()
    const wallMs = process.seams.wallMs()
    process.stepWall(-500)
    expect([process.seams.wallMs(), process.seams.nowMs()]).toEqual([wallMs - 500, 1000])
    await scheduler.run(40, nothing)
    const nonce = process.seams.nonce()
    expect(nonce).toMatch(/^[A-Za-z0-9_-]{22}$/)
    expect(process.bornAtMs.get(nonce)).toBe(40)
  })
})
