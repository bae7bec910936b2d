import { describe, expect, test } from 'vitest'
import { verdictOf } from '../../src/lab/checker.ts'
import type { Entry } from '../../src/lab/history.ts'
import { checkFailover } from '../../src/lab/scenarios/failover/check.ts'
import type { TrialRecord } from '../../src/lab/trial.ts'
import { type MadeUp, trialEntries } from './fixtures/made-up-trial.ts'

const ROUNDS = 4
const ARM = 'redis, ttl 1 s'
const BARE = 'bare writes, redis, ttl 1 s'
const SQLITE = 'sqlite, ttl 1 s'
const ETCD = 'etcd, one member, ttl 1 s'

type Change = (entry: Entry) => Entry | null
type Row = { term: string; writer: string }

const FAULTS: Readonly<Record<string, readonly string[]>> = {
  [ARM]: ['kill', 'stop', 'resign'],
  [BARE]: ['stop'],
  [SQLITE]: ['kill', 'resign'],
  [ETCD]: ['kill', 'stop', 'resign'],
}

/** Leaders follow each other at 1, 1.1 and 0.02 s after the fault; the late write comes 100 ms later. */
const TOOK_MS: Readonly<Record<string, number>> = { kill: 1000, stop: 1100, resign: 20 }

function recordOf(
  arm: string,
  change: Change = (entry) => entry,
  rowsOf: (rows: Row[]) => unknown = (rows) => rows,
): TrialRecord {
  const entries: Entry[] = []
  const rows: Row[] = []
  const isBare = arm === BARE
  let atMs = 0
  let term = 1
  const writer = (one: number): string => `candidate ${one % 3}`
  const lead = (round: number): void => {
    const made: MadeUp = [writer(term), 'write', atMs, { answer: 'accepted', token: `${term}` }]
    entries.push(...trialEntries(arm, round, [made]))
    rows.push({ term: `${term}`, writer: writer(term) })
  }
  lead(0)
  for (let round = 0; round < ROUNDS; round++) {
    const seen: MadeUp = ['lab', 'granted', atMs + 5, { answer: 'seen', value: 2000 }]
    if (arm === ETCD) entries.push(...trialEntries(arm, round, [seen]))
    for (const fault of FAULTS[arm] ?? []) {
      const token = `${term}`
      const old = writer(term)
      const made: MadeUp[] = [['lab', fault, atMs + 10, { answer: 'done', token }]]
      if (fault === 'resign') made.push([old, 'resign', atMs + 12, { answer: 'released', token }])
      atMs += (fault === 'resign' ? 12 : 10) + (TOOK_MS[fault] ?? 0)
      term += 1
      lead(round)
      if (fault === 'stop') made.push(['lab', 'wake', atMs + 50, { answer: 'done', token }])
      const answer = isBare ? 'accepted' : 'STALE_TOKEN'
      if (fault !== 'kill') made.push([old, 'late', atMs + 100, { answer, token }])
      if (isBare) rows.push({ term: token, writer: old })
      entries.push(...trialEntries(arm, round, made))
      atMs += 200
    }
    entries.push(...trialEntries(arm, round, [['lab', 'round', atMs, { answer: 'counts' }]]))
  }
  return {
    arm: { name: arm, protected: !isBare },
    ...{ rounds: ROUNDS, size: 1 },
    entries: entries.map(change).filter((entry) => entry !== null),
    finals: rowsOf(rows),
  }
}

const changed =
  (op: string, round: number, more: Partial<Entry> | null): Change =>
  (entry) => {
    if (entry.op !== op || entry.round !== round) return entry
    return more && { ...entry, ...more }
  }

const verdict = (record: TrialRecord): string =>
  verdictOf(record.arm, ROUNDS, checkFailover(record))

describe('figures', () => {
  test('times are those until the next leader wrote, by fault, and late writes are counted', () => {
    const findings = checkFailover(recordOf(ARM))
    expect(findings).toMatchObject({
      ...{ rounds: ROUNDS, roundsTrue: ROUNDS, redrawn: 0, problems: [], breaches: [] },
      metrics: {
        ...{ killedP50Ms: 1000, killedMaxMs: 1000, stoppedP50Ms: 1100, stoppedMaxMs: 1100 },
        ...{ resignedP50Ms: 20, resignedMaxMs: 20, lateWrites: 8, refusedLate: 8 },
      },
    })
    expect(findings.bars?.map(({ ratio, answer }) => [ratio, answer])).toEqual([
      [1, 'OK'],
      [1.1, 'OK'],
    ])
    expect(verdict(recordOf(ARM))).toBe('holds')
  })

  test('the control holds when every late write goes through, and says so', () => {
    const record = recordOf(BARE)
    expect(checkFailover(record)).toMatchObject({
      ...{ roundsTrue: ROUNDS, problems: [] },
      metrics: { lateWrites: ROUNDS, refusedLate: 0 },
    })
    expect(verdict(record)).toBe('holds')
  })

  test('on SQLite nobody is stopped, and nothing is missed for it', () => {
    expect(checkFailover(recordOf(SQLITE)).metrics).not.toHaveProperty('stoppedP50Ms')
    expect(verdict(recordOf(SQLITE))).toBe('holds')
  })

  test('a bar is made of the TTL that etcd granted, whatever was asked for', () => {
    const findings = checkFailover(recordOf(ETCD))
    expect(findings).toMatchObject({ metrics: { grantedTtlMs: 2000 }, roundsTrue: ROUNDS })
    expect(findings.bars?.map(({ ratio }) => ratio)).toEqual([0.5, 0.55])
    expect(verdict(recordOf(ETCD))).toBe('holds')
    expect(checkFailover(recordOf(ARM)).metrics).not.toHaveProperty('grantedTtlMs')
  })

  test('a successor that is late misses the bar, and breaks nothing', () => {
    const late = recordOf(ARM, (entry) =>
      entry.op === 'write' ? { ...entry, answeredAtUs: entry.answeredAtUs + 5_000 } : entry,
    )
    const slow = recordOf(ARM, (entry) =>
      entry.op === 'kill' ? { ...entry, calledAtUs: entry.calledAtUs - 9_000 } : entry,
    )
    expect(verdict(late)).toBe('holds')
    expect(checkFailover(slow).metrics['killedP50Ms']).toBe(1009)
  })
})

describe('what breaks an arm', () => {
  test('a late write that is accepted', () => {
    const accepted = changed('late', 2, { answer: 'accepted', process: 'x' })
    const written = (rows: Row[]): Row[] => [
      ...rows,
      ...recordOf(ARM)
        .entries.filter(({ op, round }) => op === 'late' && round === 2)
        .map(({ token = '' }) => ({ term: token, writer: 'x' })),
    ]
    expect(verdict(recordOf(ARM, accepted, written))).toBe('broken')
  })

  const stores: [string, (rows: Row[]) => unknown][] = [
    ['terms that went back, by the store alone', (rows) => [...rows, { ...(rows[0] as Row) }]],
    ['two writers of one term', (rows) => [...rows, { ...(rows.at(-1) as Row), writer: 'x' }]],
  ]
  test.each(stores)('%s', (_, rowsOf) => {
    expect(verdict(recordOf(ARM, undefined, rowsOf))).toBe('broken')
  })

  test('a control in which one late write was refused', () => {
    expect(verdict(recordOf(BARE, changed('late', 1, { answer: 'STALE_TOKEN' })))).toBe('broken')
  })

  test('a control in which nothing was written late over anybody', () => {
    const refused: Change = (entry) =>
      entry.op === 'late' ? { ...entry, answer: 'STALE_TOKEN' } : entry
    expect(verdict(recordOf(BARE, refused))).toBe('void')
  })
})

describe('what cannot be trusted', () => {
  const cases: [string, Change][] = [
    ['a fault that nobody recorded', changed('kill', 1, null)],
    ['a late write that is missing', changed('late', 1, null)],
    ['a leader that was never woken', changed('wake', 3, null)],
    [
      'a resignation that never began',
      (one) => (one.op === 'resign' && one.process !== 'lab' ? null : one),
    ],
    ['a fault that met nobody who led', changed('stop', 0, { token: '999' })],
    ['a late write that came to nothing', changed('late', 1, { answer: 'GUARD_BUSY' })],
    ['something that failed', changed('resign', 0, { answer: 'failed', detail: 'x' })],
    [
      'a late write before the new leader had written',
      changed('late', 1, { calledAtUs: 0, answeredAtUs: 0 }),
    ],
    ['a leader that wrote late before it was woken', changed('wake', 2, { calledAtUs: 9e12 })],
  ]
  test.each(cases)('%s', (_, change) => {
    expect(verdict(recordOf(ARM, change))).toBe('void')
  })

  test('an etcd whose grants nobody looked at, or that granted less than was asked for', () => {
    const unseen: Change = (entry) => (entry.op === 'granted' ? null : entry)
    expect(verdict(recordOf(ETCD, unseen))).toBe('void')
    expect(verdict(recordOf(ETCD, changed('granted', 2, { value: 999 })))).toBe('void')
  })

  const stores: [string, (rows: Row[]) => unknown][] = [
    ['a store that nobody looked at', () => undefined],
    ['a write that was told, and is not there', (rows) => rows.slice(0, -1)],
  ]
  test.each(stores)('%s', (_, rowsOf) => {
    expect(verdict(recordOf(ARM, undefined, rowsOf))).toBe('void')
  })

  test('a round that was missed does not count', () => {
    const record = recordOf(ARM, changed('round', 2, { answer: 'missed' }))
    expect(checkFailover(record)).toMatchObject({ rounds: ROUNDS - 1, redrawn: 1 })
    expect(verdict(record)).toBe('void')
  })
})
