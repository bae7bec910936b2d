import { describe, expect, test } from 'vitest'
import { verdictOf } from '../../src/lab/checker.ts'
import type { Entry } from '../../src/lab/history.ts'
import { checkFailover } from '../../src/lab/scenarios/failover/check.ts'
import type { TrialRecord } from '../../src/lab/trial.ts'
import { type MadeUp, trialEntries } from './fixtures/made-up-trial.ts'

const ARM = 'etcd, three members, its leader killed, ttl 2 s'
const STOPPED = 'etcd, three members, its leader stopped, ttl 2 s'
const ROUNDS = 3
const ROUND_MS = 10_000
const WRITE_EVERY_MS = 100
/** In the middle round the leader is told 1.5 s after the fault, and another one leads 0.5 s later. */
const DEPOSED_ROUND = 1

type Change = (entry: Entry) => Entry | null
type Row = { term: string; writer: string }

/** Candidate 1 leads in term 1, and candidate 2 in term 2. */
function recordOf(
  change: Change = (entry) => entry,
  rowsOf: (rows: Row[]) => unknown = (rows) => rows,
  arm = ARM,
): TrialRecord {
  const entries: Entry[] = []
  const rows: Row[] = []
  const add = (round: number, ...made: MadeUp[]): void => {
    entries.push(...trialEntries(arm, round, made))
  }
  add(0, ['candidate 1', 'elected', 0, { answer: 'leads', token: '1' }])
  for (let round = 0; round < ROUNDS; round++) {
    const fromMs = 100 + round * ROUND_MS
    const faultMs = fromMs + 500
    const isDeposing = round === DEPOSED_ROUND
    for (let atMs = fromMs; atMs < fromMs + ROUND_MS - 1; atMs += WRITE_EVERY_MS) {
      const isOver = isDeposing && atMs > faultMs + 1500
      if (isOver && atMs <= faultMs + 2000) continue
      const term = isOver || round > DEPOSED_ROUND ? 2 : 1
      const writer = `candidate ${term}`
      add(0, [writer, 'write', atMs, { answer: 'accepted', token: `${term}` }])
      rows.push({ term: `${term}`, writer })
    }
    if (isDeposing) {
      add(0, ['candidate 1', 'told', faultMs + 1500, { answer: 'over', token: '1' }])
      add(0, ['candidate 2', 'elected', faultMs + 2000, { answer: 'leads', token: '2' }])
    }
    const [died, next] = [{ detail: 'etcd 1' }, { detail: 'etcd 2' }]
    const fault = arm === ARM ? 'kill' : 'stop'
    add(round, ['lab', fault, faultMs + 1, died], ['lab', 'led', faultMs + 1200, next])
    add(round, ['lab', 'stored', faultMs + 1300], ['lab', 'back', faultMs + 4000, died])
    add(round, ['lab', 'round', fromMs + ROUND_MS - 50, { answer: 'over' }])
  }
  return {
    ...{ arm: { name: arm, protected: true }, rounds: ROUNDS, size: 1 },
    entries: entries.map(change).filter((entry) => entry !== null),
    finals: rowsOf(rows),
  }
}

const changed =
  (op: string, more: Partial<Entry> | null, isMeant = (_: Entry) => true): Change =>
  (entry) => {
    if (entry.op !== op || !isMeant(entry)) return entry
    return more && { ...entry, ...more }
  }

const isOf =
  (process: string, round?: number) =>
  (entry: Entry): boolean =>
    entry.process === process && (round === undefined || entry.round === round)

const verdict = (record: TrialRecord): string =>
  verdictOf(record.arm, ROUNDS, checkFailover(record))

test('figures are of the writes: how long there were none, and how often a term went on', () => {
  const findings = checkFailover(recordOf())
  expect(findings).toMatchObject({
    ...{ rounds: ROUNDS, roundsTrue: ROUNDS, redrawn: 0, problems: [], breaches: [] },
    metrics: {
      killedP50Ms: 100,
      killedMaxMs: 600,
      storedP50Ms: 1299,
      storedMaxMs: 1299,
      keptTerms: 2,
    },
  })
  expect(verdict(recordOf())).toBe('holds')
})

/** When the fault of the middle round came. */
const deposedMs = 100 + DEPOSED_ROUND * ROUND_MS + 500

describe('a leader that is told when another one leads already', () => {
  // The member that was stopped wakes up 4 s after its fault, and ends sessions that live.
  const late =
    (byMs: number): Change =>
    (entry) => {
      if (entry.op === 'elected' && entry.token === '2') {
        return { ...entry, calledAtUs: byMs * 1000, answeredAtUs: byMs * 1000 }
      }
      return entry.op === 'told' ? { ...entry, calledAtUs: (byMs + 100) * 1000 } : entry
    }
  const wokenMs = deposedMs + 4100

  test('is counted where a member woke up, and only there', () => {
    const record = recordOf(late(wokenMs), undefined, STOPPED)
    expect(checkFailover(record)).toMatchObject({ roundsTrue: ROUNDS, metrics: { toldLate: 1 } })
    expect(verdict(record)).toBe('holds')
    expect(checkFailover(recordOf(late(wokenMs))).metrics).toMatchObject({ toldLate: 1 })
    expect(verdict(recordOf(late(wokenMs)))).toBe('broken')
  })

  test('breaks both arms while the member is away', () => {
    for (const arm of [ARM, STOPPED]) {
      const record = recordOf(late(deposedMs + 3900), undefined, arm)
      expect(checkFailover(record)).toMatchObject({ roundsTrue: ROUNDS - 1, problems: [] })
      expect(verdict(record)).toBe('broken')
    }
  })

  test('is counted of the round before, when it comes between two', () => {
    const record = recordOf(late(deposedMs + ROUND_MS - 10), undefined, STOPPED)
    expect(checkFailover(record).metrics).toMatchObject({ toldLate: 1, keptTerms: 2 })
  })
})

describe('what breaks an arm', () => {
  const lastBackMs = 100 + (ROUNDS - 1) * ROUND_MS + 4500
  const cases: [string, Change][] = [
    ['a leader that was told after another one led', changed('told', { calledAtUs: 9e12 })],
    ['a leader that was never told', changed('told', null)],
    [
      'a leader whom the guard had to refuse',
      changed(
        'write',
        { answer: 'STALE_TOKEN' },
        ({ calledAtUs }) => calledAtUs === (deposedMs + 2100) * 1000,
      ),
    ],
    [
      'nobody who writes again',
      changed('write', null, ({ calledAtUs }) => calledAtUs > lastBackMs * 1000),
    ],
  ]
  test.each(cases)('%s', (_, change) => {
    expect(checkFailover(recordOf(change)).roundsTrue).toBe(ROUNDS - 1)
    expect(verdict(recordOf(change))).toBe('broken')
  })

  const stores: [string, (rows: Row[]) => unknown][] = [
    ['terms that went back, by the store alone', (rows) => [...rows, { ...(rows[0] as Row) }]],
    ['two writers of one term', (rows) => [...rows, { ...(rows.at(-1) as Row), writer: 'x' }]],
  ]
  test.each(stores)('%s', (_, rowsOf) => {
    expect(verdict(recordOf(undefined, rowsOf))).toBe('broken')
  })
})

describe('what cannot be trusted', () => {
  const cases: [string, Change][] = [
    ['a fault that nobody recorded', changed('kill', null, isOf('lab', 1))],
    ['a fault that another worker recorded', changed('kill', { process: 'x' }, isOf('lab', 1))],
    ['a member that failed and led still', changed('led', { detail: 'etcd 1' }, isOf('lab', 0))],
    ['a store that was never tried', changed('stored', null, isOf('lab', 2))],
    ['a member that never came back', changed('back', null, isOf('lab', 2))],
    [
      'a member that was back before it failed',
      changed('back', { answeredAtUs: 5 }, isOf('lab', 0)),
    ],
    ['a round without an end', changed('round', null, isOf('lab', 2))],
    [
      'a fault at which nobody worked',
      changed('write', null, ({ calledAtUs }) => Math.abs(calledAtUs - 10_000_000) < 1_000_000),
    ],
    ['a leader that was never elected', changed('elected', null, isOf('candidate 2'))],
    [
      'a write that came to nothing',
      changed('write', { answer: 'GUARD_BUSY' }, ({ calledAtUs }) => calledAtUs === 100_000),
    ],
    ['something that failed', changed('stored', { answer: 'failed' }, isOf('lab', 0))],
  ]
  test.each(cases)('%s', (_, change) => {
    expect(verdict(recordOf(change))).toBe('void')
  })

  const stores: [string, (rows: Row[]) => unknown][] = [
    ['a store that nobody looked at', () => undefined],
    ['a write that was told, and is not there', (rows) => rows.filter(({ term }) => term === '1')],
  ]
  test.each(stores)('%s', (_, rowsOf) => {
    expect(verdict(recordOf(undefined, rowsOf))).toBe('void')
  })
})
