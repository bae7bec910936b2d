import fc from 'fast-check'
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { systemSeams } from '../../../src/core/seams.ts'
import { Agenda, type Entry } from '../../../src/lock/agenda.ts'
import { createVirtualClock, seamsOf } from '../../../src/testkit/virtual-clock.ts'
import { countTimers } from '../../support/counted-timers.ts'

type Step = { add: number } | { cancel: number } | { advance: number }

const step: fc.Arbitrary<Step> = fc.oneof(
  fc.record({ add: fc.integer({ min: 0, max: 500 }) }),
  fc.record({ cancel: fc.nat(50) }),
  fc.record({ advance: fc.integer({ min: 0, max: 200 }) }),
)

describe('the agenda', () => {
  // A heap that loses or reorders an entry loses a deadline: a holder that is never told.
  it('runs every entry once, not before it is due, in order, and never one that was cancelled', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 60 }), async (steps) => {
        const clock = createVirtualClock()
        const agenda = new Agenda(seamsOf(clock), false)
        const entries: Entry[] = []
        const ran: number[] = []
        const cancelled = new Set<number>()
        for (const one of steps) {
          if ('add' in one) {
            const index = entries.length
            const dueMs = clock.nowMs() + one.add
            entries.push(agenda.add(dueMs, () => ran.push(index)))
          } else if ('cancel' in one) {
            const entry = entries[one.cancel]
            if (entry && entry.index >= 0) cancelled.add(one.cancel)
            if (entry) agenda.cancel(entry)
          } else {
            const before = ran.length
            await clock.advance(one.advance)
            const dues = ran.slice(before).map((index) => entries[index]?.dueMs ?? Number.NaN)
            expect(dues).toEqual([...dues].sort((a, b) => a - b))
            expect(dues.every((dueMs) => dueMs <= clock.nowMs())).toBe(true)
          }
          const due = entries.flatMap((entry, index) =>
            !cancelled.has(index) && entry.dueMs <= clock.nowMs() - 1 ? [index] : [],
          )
          if ('advance' in one) expect(new Set(ran)).toEqual(new Set([...ran, ...due]))
        }
        await clock.advance(1000)
        const expected = entries.map((_, index) => index).filter((index) => !cancelled.has(index))
        expect([...ran].sort((a, b) => a - b)).toEqual(expected)
        expect(agenda.size).toBe(0)
      }),
      { numRuns: 200 },
    )
  })

  // Armed in its books for a time at which no timer would fire, it never ran anything again.
  it('tells whoever adds when the clock throws, and goes on with the rest', async () => {
    const clock = createVirtualClock()
    const seams = seamsOf(clock)
    let isBroken = false
    const after: typeof seams.after = (...args) => {
      if (isBroken) throw new Error('no timer')
      return seams.after(...args)
    }
    const agenda = new Agenda({ ...seams, after }, true)
    const ran: string[] = []
    agenda.add(clock.nowMs() + 100, () => ran.push('before'))
    isBroken = true
    expect(() => agenda.add(clock.nowMs() + 50, () => ran.push('refused'))).toThrow('no timer')
    expect(agenda.size).toBe(1)
    isBroken = false
    await clock.advance(100)
    agenda.add(clock.nowMs() + 70, () => ran.push('after'))
    await clock.advance(100)
    expect(ran).toEqual(['before', 'after'])
  })

  // Ten thousand timers cost more than ten thousand leases.
  it('arms one timer for any number of entries', () => {
    const clock = createVirtualClock()
    const agenda = new Agenda(seamsOf(clock), false)
    for (let count = 0; count < 1000; count += 1) agenda.add(clock.nowMs() + 1000 + count, () => {})
    expect(clock.pendingCount).toBe(1)
  })

  it('arms none when it is empty and keeps the process alive', () => {
    const clock = createVirtualClock()
    const agenda = new Agenda(seamsOf(clock), true)
    const entry = agenda.add(clock.nowMs() + 1000, () => {})
    agenda.cancel(entry)
    agenda.cancel(entry)
    expect(clock.pendingCount).toBe(0)
  })

  it('goes on after an entry that throws', async () => {
    const clock = createVirtualClock()
    const agenda = new Agenda(seamsOf(clock), false)
    let ran = 0
    agenda.add(clock.nowMs() + 10, () => {
      throw new Error('an entry failed')
    })
    agenda.add(clock.nowMs() + 20, () => {
      ran += 1
    })
    await expect(clock.advance(15)).rejects.toThrow('an entry failed')
    await clock.advance(15)
    expect(ran).toBe(1)
  })

  // The timer stays armed when there is nothing left to do: a process could then end while somebody
  // waits, or stay when nobody does any more.
  it.each([
    ['that can let the process end', true, true],
    ['that cannot', true, false],
    ['of leases, which never do', false, true],
  ])('keeps the process running just while something is due: timers %s', (_, keeps, canChange) => {
    const timers = countTimers()
    onTestFinished(() => timers.restore())
    const after: typeof systemSeams.after = (...given) => {
      const cancel = systemSeams.after(...given)
      return canChange ? cancel : () => cancel()
    }
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
        const agenda = new Agenda({ ...systemSeams, after, nowMs: () => Date.now() }, keeps)
        const entries: Entry[] = []
        for (const one of steps) {
          if ('add' in one) entries.push(agenda.add(Date.now() + one.add, () => {}))
          else if ('cancel' in one) cancelOne(agenda, entries, one.cancel)
          else vi.advanceTimersByTime(one.advance)
          expect(timers.kept()).toBe(keeps && agenda.size > 0 ? 1 : 0)
          expect(timers.armed()).toBeLessThanOrEqual(1)
          const left = entries.filter(({ index }) => index >= 0)
          expect(left.every(({ dueMs }) => dueMs >= Date.now())).toBe(true)
        }
        vi.advanceTimersByTime(1000)
        expect([agenda.size, timers.armed()]).toEqual([0, 0])
      }),
      { numRuns: 300 },
    )
  })
})

/** One of those that are left, so that often none is. */
function cancelOne(agenda: Agenda, entries: readonly Entry[], number: number): void {
  const left = entries.filter(({ index }) => index >= 0)
  const entry = left[number % left.length]
  if (entry) agenda.cancel(entry)
}
