import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { elapsedMs, instant, withSparingBoot } from '../../../src/core/elapsed.ts'
import { systemSeams } from '../../../src/core/seams.ts'

const at = (nowMs: number, bootMs: number) => ({ nowMs, bootMs })

describe('elapsed time', () => {
  // A laptop that slept believes its lease is young: the monotonic clock stood still.
  it('counts a suspend that only the boot clock saw, rounded up by its grain', () => {
    expect(elapsedMs(at(0, 0), at(50, 60_050))).toBe(60_060)
  })

  // The boot clock steps by 10 ms, so its delta alone would cost every lease 10 ms.
  it.each([-20, -10, 0, 10, 20])(
    'ignores a boot clock that differs by its grain: %i ms',
    (lead) => {
      expect(elapsedMs(at(100, 1000), at(200, 1100 + lead))).toBe(100)
    },
  )

  it('is never less than the monotonic delta', () => {
    const ms = fc.integer({ min: 0, max: 1_000_000 })
    fc.assert(
      fc.property(ms, ms, ms, ms, (now, boot, nowDelta, bootDelta) => {
        const passed = elapsedMs(at(now, boot), at(now + nowDelta, boot + bootDelta))
        expect(passed).toBeGreaterThanOrEqual(nowDelta)
      }),
    )
  })
})

describe('the sparing boot clock', () => {
  function clocks() {
    const state = { nowMs: 1000, leadMs: 0, wallLeadMs: 5000, reads: 0 }
    const seams = withSparingBoot({
      ...systemSeams,
      nowMs: () => state.nowMs,
      wallMs: () => state.nowMs + state.wallLeadMs,
      bootMs: () => {
        state.reads += 1
        return state.nowMs + state.leadMs
      },
    })
    return { state, seams }
  }

  // Reading /proc/uptime at each step of each acquire costs more than the arithmetic itself.
  it('reads the real one at most every 100 ms while nothing moved', () => {
    const { state, seams } = clocks()
    for (let step = 0; step < 100; step += 1) {
      instant(seams)
      state.nowMs += 10
    }
    expect(state.reads).toBeLessThanOrEqual(11)
  })

  it('sees a suspend at the next reading, because the wall clock moved with it', () => {
    const { state, seams } = clocks()
    const before = instant(seams)
    state.nowMs += 1
    state.leadMs += 60_000
    state.wallLeadMs += 60_000
    expect(elapsedMs(before, instant(seams))).toBeGreaterThan(60_000)
  })

  // An operator set the wall clock back by what the machine slept.
  it('sees a suspend that the wall clock hides within 100 ms of running time', () => {
    const { state, seams } = clocks()
    const before = instant(seams)
    state.leadMs += 60_000
    state.nowMs += 100
    expect(elapsedMs(before, instant(seams))).toBeGreaterThan(60_000)
  })
})
