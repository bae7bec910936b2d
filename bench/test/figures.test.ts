import { describe, expect, it } from 'vitest'
import { barsOf, verdictOf } from '../src/bars.ts'
import { sampleOf } from '../src/contend.ts'
import { type Entry, type Measured, measure, type Sample } from '../src/measure.ts'
import { rowsOf } from '../src/rows.ts'
import { jain, largest, median, percentile } from '../src/statistics.ts'

describe('statistics', () => {
  it('interpolate between neighbours', () => {
    expect(median([4, 1, 3, 2])).toBe(2.5)
    expect(percentile([10, 20], 0.99)).toBeCloseTo(19.9)
    expect(percentile([7], 0.01)).toBe(7)
    expect(() => median([])).toThrow('nothing')
  })

  it('take more values than a call has arguments', () => {
    const values = Array.from({ length: 300_000 }, (_, index) => index)
    expect(largest(values)).toBe(299_999)
  })

  it('call it fair when all got the same, and 1/n when one got everything', () => {
    expect(jain([5, 5, 5, 5])).toBe(1)
    expect(jain([9, 0, 0])).toBeCloseTo(1 / 3)
    expect(jain([0, 0])).toBe(0)
  })
})

const LABEL = {
  variant: '',
  comparedWith: 'ioredis',
  inFlight: 1,
  isOwnerChecked: true,
  close: async () => {},
}

function entry(who: string, slice: () => Sample): Entry {
  const isReference = who === 'hand-written'
  return { ...LABEL, who, client: 'ioredis', isReference, slice: async () => slice() }
}

function sample(pairMs: number): Sample {
  return { count: 2, elapsedMs: 2 * pairMs, latenciesMs: [pairMs, pairMs] }
}

describe('a guarded transaction', () => {
  // What the time-outs cost is not the guard's price; and a machine that slows down must not hide it.
  it('is compared, run by run, with a plain one that has the same time-outs', async () => {
    const inTurn = (who: string, variant: string, p50Ms: readonly number[]): Entry => {
      let run = 0
      const slice = async (): Promise<Sample> => sample(p50Ms[run++] ?? 0)
      const label = { who, variant, client: 'pg', comparedWith: 'pg' }
      return { ...LABEL, ...label, isReference: variant === 'plain', slice }
    }
    const entries = [
      inTurn('hand-written', 'plain', [1, 2, 4]),
      inTurn('hand-written', 'with time-outs', [1.25, 2.5, 5]),
      inTurn('holdfast', 'guard.transaction', [1.25, 3, 5]),
    ]
    const { measured } = await measure(entries, { runs: 3, runMs: 0 }, () => {})
    const [bar, ...more] = barsOf(rowsOf('transaction', measured))
    expect(bar).toMatchObject({ figure: 1, wanted: '<= 1.12 (1.18)', verdict: 'OK' })
    expect(bar?.what).toContain('with the same time-outs')
    expect(more).toEqual([])
  })
})

describe('a ratio', () => {
  // The machine is half as fast in each further run; ratios over all runs at once would show it.
  it('is taken within a run, and the median over the runs is told', async () => {
    const paceMs = [1, 2, 4]
    const order: string[] = []
    const inTurn = (who: string, factors: readonly number[]): Entry => {
      let slices = 0
      return entry(who, () => {
        order.push(who)
        const run = slices++
        return sample((factors[run] ?? 0) * (paceMs[run] ?? 0))
      })
    }
    const entries = [inTurn('hand-written', [1, 1, 1]), inTurn('holdfast', [1.5, 2, 4])]

    const { measured } = await measure(entries, { runs: 3, runMs: 0 }, () => {})
    const [reference, own] = rowsOf('one-in-flight', measured)

    expect(reference).toMatchObject({ ratio: 1, p50Ratio: 1, n: 3, p50Ms: 2 })
    expect(own).toMatchObject({ p50Ratio: 2, p50RatioSpread: { min: 1.5, max: 4 }, p50Ms: 4 })
    expect(own).toMatchObject({ ratio: 0.5, ratioSpread: { min: 0.25 } })
    expect(own?.ratioSpread.max).toBeCloseTo(1 / 1.5)
    // The first place moves on.
    expect(order).toEqual([
      'holdfast',
      'hand-written',
      'hand-written',
      'holdfast',
      'holdfast',
      'hand-written',
    ])
  })

  it('is not told where the reference failed', () => {
    const run = { count: 1, perSecond: 1, p50Ms: 1, p99Ms: 1, longestMs: 1, longestRounds: 1 }
    const measured: Measured[] = [
      {
        entry: entry('holdfast', () => sample(1)),
        runs: [
          { ...run, shares: [], requestsEach: 1, eventsEach: 1, serverUsEach: 1, clientUsEach: 1 },
        ],
      },
    ]
    expect(rowsOf('one-in-flight', measured)).toEqual([])
  })
})

describe('a slice of contenders', () => {
  const section = (worker: number, heldAtMs: number, endedAtMs: number) => ({
    worker,
    askedAtMs: 100,
    heldAtMs,
    endedAtMs,
  })

  it('counts what ended in time, and every wait', () => {
    const sections = [section(0, 101, 102), section(1, 102, 103), section(0, 109, 111)]

    expect(sampleOf(sections, 3, 100, 110)).toEqual({
      count: 2,
      elapsedMs: 10,
      latenciesMs: [1, 2, 9],
      shares: [2, 1, 0],
    })
    expect(sampleOf(sections.slice(2), 1, 100, 110)).toMatchObject({ count: 1, elapsedMs: 11 })
  })

  it('is refused when two of them held the name at once, were it for a microsecond', () => {
    const apart = [section(0, 101, 102), section(1, 102, 103)]
    const overlapping = [section(0, 101, 102.001), section(1, 102, 103)]

    expect(() => sampleOf(apart, 2, 100, 110)).not.toThrow()
    expect(() => sampleOf(overlapping, 2, 100, 110)).toThrow('2 held one name at once')
  })
})

describe('a bar', () => {
  it.each([
    ['well within', { isUpper: true, bar: 2.5, figure: 1.1, worst: 3 }, 'OK'],
    ['near, and every run within', { isUpper: true, bar: 1.06, figure: 1.03, worst: 1.05 }, 'OK'],
    ['near, and a run outside', { isUpper: true, bar: 1.06, figure: 1.03, worst: 1.08 }, 'SHORT'],
    [
      'between the bar and the accepted one',
      { isUpper: true, bar: 1.06, accepted: 1.2, figure: 1.08, worst: 1.12 },
      'ACCEPTED',
    ],
    [
      'near the accepted bar, and a run outside',
      { isUpper: true, bar: 1.06, accepted: 1.1, figure: 1.08, worst: 1.12 },
      'SHORT',
    ],
    ['outside', { isUpper: true, bar: 1.06, figure: 1.07, worst: 1.07 }, 'SHORT'],
    ['above a lower bar', { isUpper: false, bar: 2, figure: 2.4, worst: 1.9 }, 'OK'],
    ['near a lower bar', { isUpper: false, bar: 2, figure: 2.05, worst: 1.9 }, 'SHORT'],
    ['below a lower bar', { isUpper: false, bar: 2, figure: 1.9, worst: 1.9 }, 'SHORT'],
  ] as const)('%s is judged %j', (_, side, verdict) => {
    expect(verdictOf(side)).toBe(verdict)
  })
})
