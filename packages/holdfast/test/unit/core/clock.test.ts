import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { after, TIMER_DELAY_MS_MAX } from '../../../src/core/clock.ts'
import { type CountedTimers, countTimers } from '../../support/counted-timers.ts'

let timers: CountedTimers

beforeEach(() => {
  timers = countTimers()
})

afterEach(() => timers.restore())

describe('a timer', () => {
  it('keeps the process running where it was asked to, and else not', () => {
    after(10, () => {})
    expect([timers.armed(), timers.kept()]).toEqual([1, 0])
    after(10, () => {}, true)
    expect([timers.armed(), timers.kept()]).toEqual([2, 1])
  })

  // A process that had nothing left to do stayed for the rest of the delay, or ended too early.
  it('can be told to keep the process running, and not to, any number of times', () => {
    let fired = 0
    const cancel = after(100, () => {
      fired += 1
    })
    for (const keeps of [true, false, false, true, true, false, true]) {
      cancel.keepAlive?.(keeps)
      expect([timers.armed(), timers.kept()]).toEqual([1, keeps ? 1 : 0])
    }
    vi.advanceTimersByTime(99)
    expect(fired).toBe(0)
    vi.advanceTimersByTime(1)
    expect([fired, timers.armed()]).toEqual([1, 0])
  })

  // Node takes a longer delay for 1 ms, and each link of the chain is a new timer of Node's.
  it.each([true, false])('that is longer than Node takes stays so: kept %s', (keeps) => {
    let fired = 0
    const cancel = after(
      2 * TIMER_DELAY_MS_MAX + 5,
      () => {
        fired += 1
      },
      !keeps,
    )
    cancel.keepAlive?.(keeps)
    for (let link = 0; link < 2; link++) {
      expect([timers.armed(), timers.kept()]).toEqual([1, keeps ? 1 : 0])
      vi.advanceTimersByTime(TIMER_DELAY_MS_MAX)
    }
    expect([timers.armed(), timers.kept(), fired]).toEqual([1, keeps ? 1 : 0, 0])
    vi.advanceTimersByTime(4)
    expect(fired).toBe(0)
    vi.advanceTimersByTime(1)
    expect([fired, timers.armed()]).toEqual([1, 0])
  })

  it('that was cancelled in the middle of such a chain never fires', () => {
    let fired = 0
    const cancel = after(2 * TIMER_DELAY_MS_MAX, () => {
      fired += 1
    })
    vi.advanceTimersByTime(TIMER_DELAY_MS_MAX + 5)
    cancel()
    cancel()
    vi.advanceTimersByTime(2 * TIMER_DELAY_MS_MAX)
    expect([fired, timers.armed()]).toEqual([0, 0])
  })
})
