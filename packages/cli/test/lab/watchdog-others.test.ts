import { describe, expect, test } from 'vitest'
import { verdictOf } from '../../src/lab/checker.ts'
import type { Entry } from '../../src/lab/history.ts'
import { checkWatchdog } from '../../src/lab/scenarios/watchdog/check.ts'
import type { TrialRecord } from '../../src/lab/trial.ts'
import { type MadeUp, trialEntries } from './fixtures/made-up-trial.ts'
import { runLab } from './fixtures/run-lab.ts'

type Change = (made: readonly MadeUp[]) => readonly MadeUp[]

const without =
  (op: string): Change =>
  (made) =>
    made.filter((one) => one[1] !== op)

/** The first operation of that name, with other facts. */
const changed =
  (op: string, more: Partial<Entry> & { lastsMs?: number }, nth = 0): Change =>
  (made) => {
    const at = made.flatMap((one, index) => (one[1] === op ? [index] : []))[nth]
    return made.map((one, index) =>
      index === at ? [one[0], one[1], one[2], { ...one[3], ...more }] : one,
    )
  }

function recordOf(name: string, entries: readonly Entry[], finals: unknown): TrialRecord {
  return { arm: { name, protected: true }, rounds: 1, size: 1, entries, finals }
}

const verdict = (record: TrialRecord): string => verdictOf(record.arm, 1, checkWatchdog(record))

/** Held from 6 ms to 20,500 ms, renewed every 300 ms; asked and looked at every 500 ms. */
function longJob(change: Change = (made) => made): TrialRecord {
  const made: MadeUp[] = [['ioredis', 'acquire', 0, { lastsMs: 6, answer: 'granted', owner: 'o' }]]
  for (let atMs = 1; atMs < 20_500; atMs += 300) {
    made.push(['lab', 'request', atMs, { answer: 'about-lock' }], ['lab', 'reply', atMs + 2])
  }
  for (let atMs = 100; atMs < 20_400; atMs += 500) {
    made.push(['asker', 'ask', atMs, { lastsMs: 1, answer: 'refused' }])
    made.push(['lab', 'look', atMs, { lastsMs: 1, answer: 'seen', detail: 'hf1:o:7', value: 800 }])
  }
  made.push(['lab', 'job', 20, { lastsMs: 20_400, answer: 'over', value: 20 }])
  made.push(
    ['ioredis', 'release', 20_500, { lastsMs: 1, answer: 'released' }],
    ['ioredis', 'not-told', 20_510, { value: 30 }],
  )
  made.push(['asker', 'ask', 20_600, { lastsMs: 1, answer: 'granted' }])
  return recordOf('long job', trialEntries('long job', 0, change(made)), null)
}

describe('a job of ten TTLs', () => {
  test('that keeps its lock holds, and its renewals are those on the wire', () => {
    // The first request that is answered is the one that acquired it.
    expect(checkWatchdog(longJob())).toMatchObject({
      ...{ rounds: 1, roundsTrue: 1, problems: [] },
      metrics: { rounds: 1, renewals: 68, asks: 41, grantedToOthers: 0 },
    })
    expect(verdict(longJob())).toBe('holds')
  })

  test.each<[string, Change]>([
    ['somebody else is granted it', changed('ask', { answer: 'granted' }, 3)],
    ['the store names somebody else', changed('look', { detail: 'hf1:x:8' }, 3)],
    ['the key is gone', changed('look', { detail: '', value: -2 }, 3)],
    ['it is no longer its own in the end', changed('release', { answer: 'not-held' })],
    [
      'its holder is told of a loss',
      (made) => [...without('not-told')(made), ['ioredis', 'told', 5_000, { value: 30 }]],
    ],
  ])('is broken when %s', (_what, change) => {
    // A lock that was away for a moment was away.
    expect(verdict(longJob(change))).toBe('broken')
  })

  test.each<[string, Change]>([
    ['nobody asked', (made) => made.filter((one) => one[1] !== 'ask' || one[2] > 20_500)],
    ['nobody looked', without('look')],
    ['it was over too soon', changed('job', { lastsMs: 19_000 })],
    [
      'nobody got it when it was free',
      (made) => made.filter((one) => one[1] !== 'ask' || one[2] < 20_500),
    ],
    ['its release is missing', without('release')],
    ['its holder was not running', changed('not-told', { value: 300 })],
    ['the lab was not running, and its proxy with it', changed('job', { value: 300 })],
  ])('is void when %s', (_what, change) => {
    // Who is refused by a store that refuses everybody shows nothing.
    expect(verdict(longJob(change))).toBe('void')
  })
})

/** Held from 5 ms, blocked from 50 to 1,560 ms; TTL 1,000. */
function blocked(change: Change = (made) => made, writes = ['early', 'next']): TrialRecord {
  const made: MadeUp[] = [
    ['blocked', 'acquire', 0, { lastsMs: 5, answer: 'granted', token: '7' }],
    ['blocked', 'write', 10, { lastsMs: 5, answer: 'applied', detail: 'early' }],
    ['blocked', 'block', 50, { lastsMs: 1_510, answer: 'over', value: 1_510 }],
    ['next', 'acquire', 60, { lastsMs: 945, answer: 'granted', token: '8' }],
    ['next', 'write', 1_010, { lastsMs: 5, answer: 'applied', detail: 'next' }],
    ['blocked', 'assert', 1_560, { answer: 'LEASE_LOST' }],
    ['blocked', 'told', 1_561],
    ['blocked', 'write', 1_570, { lastsMs: 5, answer: 'refused', detail: 'late' }],
  ]
  const entries = trialEntries('blocked loop', 0, change(made))
  return recordOf('blocked loop', entries, { byRound: [writes] })
}

describe('a holder that blocks its own event loop', () => {
  test('is told late, as expected, and does no harm', () => {
    // The negative margin is what is promised here: nothing can be told to a blocked loop.
    expect(checkWatchdog(blocked())).toMatchObject({
      ...{ rounds: 1, roundsTrue: 1, problems: [], breaches: [] },
      metrics: { toldBeforeTtl: 0, rounds: 1, worstMarginMs: -561, refusedWrites: 1 },
    })
    expect(verdict(blocked())).toBe('holds')
  })

  test.each<[string, TrialRecord]>([
    ['its lease looks valid after the block', blocked(changed('assert', { answer: 'valid' }))],
    ['its late write is answered "applied"', blocked(changed('write', { answer: 'applied' }, 2))],
    ['it is never told', blocked(without('told'))],
    ['the next token is not larger', blocked(changed('acquire', { token: '7' }, 1))],
    ['the store has the late write', blocked(undefined, ['early', 'next', 'late'])],
  ])('is broken when %s', (_what, record) => {
    // Told late is harmless only because everything else still stops it.
    expect(verdict(record)).toBe('broken')
  })

  test.each<[string, TrialRecord]>([
    ['the block was too short', blocked(changed('block', { value: 900 }))],
    ['nobody looked after the block', blocked(without('assert'))],
    ['the next one did not write', blocked(changed('write', { answer: 'refused' }, 1))],
    ['the late write came before the next one’s', blocked(changed('write', { lastsMs: 700 }, 1))],
    ['something failed', blocked((made) => [...made, ['lab', 'x', 1, { answer: 'failed' }]])],
  ])('is void when %s', (_what, record) => {
    // Then it is not the story that was to be told.
    expect(verdict(record)).toBe('void')
  })
})

interface Arm {
  readonly name: string
  readonly verdict: string
  readonly problems: readonly string[]
  readonly metrics: Readonly<Record<string, number>>
}

describe('watchdog on real servers', () => {
  test('every running holder is told in time, and the control is not', async () => {
    // A watchdog that waits for an error is silent where the store is.
    const args = ['watchdog', '--rounds', '4', '--lanes', '2', '--seed', '11', '--json']
    const { code, stdout, stderr, leftovers } = await runLab(args)
    const [watchdog] = (JSON.parse(stdout) as { scenarios: { arms: Arm[] }[] }).scenarios
    const arms = watchdog?.arms ?? []
    expect(arms.map(({ name, verdict, problems }) => [name, verdict, problems])).toEqual(
      [
        'long job',
        'renewed by hand, silent',
        ...['silent', 'slow', 'hung', 'dead'],
        'blocked loop',
        ...['long job', 'silent', 'slow', 'hung', 'dead', 'blocked loop'].map(
          (name) => `etcd, ${name}`,
        ),
      ].map((name) => [name, 'holds', []]),
    )
    const metricsOf = (name: string): Readonly<Record<string, number>> =>
      arms.find((arm) => arm.name === name)?.metrics ?? {}
    const faults = ['silent', 'slow', 'hung', 'dead']
    for (const name of [...faults, ...faults.map((fault) => `etcd, ${fault}`)]) {
      expect(metricsOf(name)).toMatchObject({ toldBeforeTtl: 2, rounds: 2 })
      expect(metricsOf(name)['worstMarginMs']).toBeGreaterThan(0)
    }
    expect(metricsOf('renewed by hand, silent')).toMatchObject({ toldBeforeTtl: 0, heldByTwo: 2 })
    expect(metricsOf('long job')['renewals']).toBeGreaterThanOrEqual(2 * 10)
    expect(metricsOf('blocked loop')['worstMarginMs']).toBeLessThan(0)
    // Granted 2 s for the one that was asked for.
    expect(metricsOf('etcd, blocked loop')).toMatchObject({ grantedTtlMs: 2_000, refusedWrites: 2 })
    expect(metricsOf('etcd, blocked loop')['worstMarginMs']).toBeLessThan(0)
    expect(metricsOf('etcd, long job')['renewals']).toBeGreaterThanOrEqual(2 * 10)
    expect({ code, stderr, leftovers }).toEqual({ code: 0, stderr: '', leftovers: [] })
  })
})
