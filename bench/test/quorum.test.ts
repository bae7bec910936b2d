import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { barsOf } from '../src/bars.ts'
import type { Locker } from '../src/contestant.ts'
import { holdfastQuorum, type QuorumContestant } from '../src/contestants/quorum.ts'
import { measureAll, type QuorumProfile } from '../src/groups/redlock.ts'
import type { QuorumFigures, Row } from '../src/rows.ts'
import { merged, Trier, timesOf } from '../src/tries.ts'
import { brokenQuorum } from './broken-locks.ts'

const TINY: QuorumProfile = {
  runs: 1,
  runMs: 1,
  warmUpPairs: 5,
  refusedTries: 2,
  // A busy machine may stop for longer than the bench itself would wait.
  answerMsMax: 5_000,
  unansweredMax: 1,
}

describe('a quorum of three servers', () => {
  it('is measured with those alone who lock on it', async () => {
    const [ours] = holdfastQuorum() as [QuorumContestant]
    const broken = [
      brokenQuorum('without NX', ['PX', '30000'], true),
      brokenQuorum('without PX', ['NX'], true),
      brokenQuorum('without DEL', ['PX', '30000', 'NX'], false),
    ]
    const { rows, failures, notes } = await measureAll([ours, ...broken], TINY, () => {})

    expect(failures).toMatchObject([
      { variant: 'without PX', reason: 'a key with a TTL on 0 servers while it was held' },
      { variant: 'without DEL', reason: expect.stringContaining('although all were released') },
      { variant: 'without NX', reason: '2 held one name at once' },
    ])
    expect(notes).toEqual([])
    expect(rows.map(({ who, quorum }) => [who, quorum?.situation])).toEqual([
      ['holdfast', 'all alive'],
      ['holdfast', 'one hung'],
      ['holdfast', 'one killed'],
      ['holdfast', 'two killed'],
    ])
    for (const { quorum, ratio } of rows.slice(0, 3)) {
      expect(quorum).toMatchObject({ tries: 100, granted: 100, unanswered: 0, reason: null })
      // It is what the others are compared with, where no peer takes part.
      expect(ratio).toBe(1)
    }
    // A server that is gone has no more than the eight requests that it is left with, and a probe.
    expect(rows[1]?.quorum?.backlog?.requests).toBeGreaterThan(0)
    expect(rows[1]?.quorum?.backlog?.requests).toBeLessThan(20)
    const last = rows[3]?.quorum
    expect(last).toMatchObject({ tries: 2, granted: 0, unanswered: 0, heapKb: null })
    expect(last?.longestRefusalMs).toBeGreaterThan(190)
    expect(last?.reason).toBeTypeOf('string')
  })
})

describe('tries', () => {
  const given = async () => {}
  const lockerOf = (acquire: Locker['acquire']): Locker => ({ acquire, close: async () => {} })

  // A library that hangs on a server that is gone would hang the bench.
  it('are given up when there is no answer, and go on under another name', async () => {
    const names: string[] = []
    const never = new Promise<never>(() => {})
    const hangs = lockerOf((lockName) => {
      names.push(lockName)
      return names.length === 2 ? never : Promise.resolve(given)
    })
    const trier = new Trier(hangs, 'try:')
    const seen = await trier.run({ tries: 4, answerMsMax: 20, unansweredMax: 2 })

    expect(names).toEqual(['try:0', 'try:0', 'try:1', 'try:1'])
    expect(seen).toMatchObject({ refusedMs: [], reason: null })
    expect(seen.grantedMs).toHaveLength(3)
    expect(seen.unansweredMs).toHaveLength(1)
    expect(seen.unansweredMs[0]).toBeGreaterThan(20)
  })

  it('end where so many in a row have no answer, and leave no late grant standing', async () => {
    let released = 0
    const late = lockerOf(async () => {
      await sleep(300)
      return async () => {
        released += 1
      }
    })
    const seen = await new Trier(late, 'try:').run({ tries: 9, answerMsMax: 20, unansweredMax: 2 })

    expect(seen.unansweredMs).toHaveLength(2)
    expect(seen.grantedMs).toEqual([])
    await expect.poll(() => released, { timeout: 10_000 }).toBe(2)
  })

  it('count what was refused, and tell the times of what was granted', async () => {
    let asked = 0
    const moody = lockerOf(async () => {
      asked += 1
      if (asked % 2 === 0) throw new Error(`refused ${asked}`)
      return given
    })
    const extent = { tries: 3, answerMsMax: 60_000, unansweredMax: 1 }
    const trier = new Trier(moody, 'try:')
    const first = await trier.run(extent)
    const both = merged([first, await trier.run(extent)])

    expect(first.grantedMs).toHaveLength(2)
    expect(both).toMatchObject({ reason: 'refused 2', unansweredMs: [] })
    expect(both.refusedMs).toHaveLength(3)
    expect(timesOf(both)).toEqual(both.grantedMs)
    expect(timesOf({ ...both, grantedMs: [] })).toEqual(both.refusedMs)
  })
})

describe('the bars of a quorum', () => {
  const figures = (situation: string, more: Partial<QuorumFigures> = {}): QuorumFigures => ({
    ...{ situation, tries: 200, granted: 200, unanswered: 0, longestRefusalMs: null },
    ...{ reason: null, backlog: null, heapKb: null },
    ...more,
  })
  const row = (who: string, p50MsOfRuns: readonly number[], quorum: QuorumFigures): Row => {
    const ratios = { p50Ratio: 1.05, p50RatioSpread: { min: 1, max: 1.07 } }
    const label = { group: 'redlock', who, variant: '', client: 'ioredis' }
    return { ...label, ...ratios, p50MsOfRuns, quorum } as unknown as Row
  }
  const judged = (rows: readonly Row[]) =>
    barsOf(rows).map(({ what, figure, verdict }) => [what, figure, verdict])

  it('compare each situation with all alive, run by run', () => {
    const rows = [
      row('redlock 5 beta', [1, 2, 4], figures('all alive')),
      row('holdfast', [1, 2, 4], figures('all alive')),
      row('holdfast', [1.5, 2, 4], figures('one hung', { granted: 199 })),
      row('holdfast', [1.5, 3, 4], figures('one killed')),
      row('holdfast', [210], figures('two killed', { granted: 0, longestRefusalMs: 210 })),
    ]
    expect(judged(rows)).toEqual([
      ['p50, as a multiple of redlock 5 beta', 1.05, 'OK'],
      ['granted of 200, as a share, one hung', 0.995, 'SHORT'],
      ['p50, as a multiple of all alive, one hung', 1, 'OK'],
      ['granted of 200, as a share, one killed', 1, 'OK'],
      ['p50, as a multiple of all alive, one killed', 1.5, 'SHORT'],
      ['granted of 200, two killed', 0, 'OK'],
      ["longest refusal, as a multiple of the caller's wait", 1.05, 'OK'],
    ])
  })

  it('are SHORT where two killed were granted, and silent of a peer that is not there', () => {
    const two = figures('two killed', { granted: 1, longestRefusalMs: null })
    const rows = [row('holdfast', [1], figures('all alive')), row('holdfast', [1], two)]
    expect(judged(rows)).toEqual([['granted of 200, two killed', 1, 'SHORT']])
  })
})
