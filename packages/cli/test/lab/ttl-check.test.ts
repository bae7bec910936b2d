import { describe, expect, test } from 'vitest'
import { verdictOf } from '../../src/lab/checker.ts'
import type { Entry } from '../../src/lab/history.ts'
import { checkTtl } from '../../src/lab/scenarios/ttl/check.ts'
import type { WalletState } from '../../src/lab/scenarios/wallet/stores.ts'
import type { TrialRecord } from '../../src/lab/trial.ts'
import { type MadeUp, trialEntries } from './fixtures/made-up-trial.ts'

const BARE = 'redis, lock only, ttl 1 s'
const GUARDED = 'redis, lock + guard, ttl 1 s'
/** Of each round: the first outlasts the lock, the second ends while the next one reads, the third does not. */
const PAUSES_MS = [2_000, 1_010, 200]
const ROUNDS = PAUSES_MS.length
const [LONG, BETWEEN, SHORT, CRASH] = [0, 1, 2, ROUNDS] as const

type Change = (entry: Entry) => Entry | null
type Rows = (rows: (WalletState | undefined)[]) => unknown

/** Each has read 0 or what stood there by then, and adds one. */
function wallet(...writers: readonly (readonly [string, number])[]): WalletState {
  const log = writers.map(([writer, newBalance], at) => ({
    ...{ writer, newBalance, oldBalance: writers[at - 1]?.[1] ?? 0 },
  }))
  return { balance: writers.at(-1)?.[1] ?? 0, log }
}

/** A is granted it at 10 ms, and B when that lock is over, or released. */
function pauseRound(round: number, isBare: boolean): { made: MadeUp[]; state: WalletState } {
  const pauseMs = PAUSES_MS[round] ?? 0
  const wakesAt = 20 + pauseMs
  const isLate = round === LONG
  const isRefused = isLate && !isBare
  const nextAt = round === SHORT ? wakesAt + 20 : 1_020
  const [old, next] = [`${round}1`, `${round}2`]
  const claims = (process: string, atMs: number, token: string): MadeUp[] =>
    isBare ? [] : [[process, 'claim', atMs, { lastsMs: 1, answer: 'granted', token }]]
  // In the second round B's read answers when A has written.
  const readsMs = round === BETWEEN ? 20 : 1
  const seen = round === LONG ? 0 : 1
  const late = { lastsMs: 3, answer: isRefused ? 'refused' : 'applied', basis: 0, value: 1 }
  const made: MadeUp[] = [
    ['A1', 'acquire', 0, { lastsMs: 10, answer: 'granted', token: old }],
    ...claims('A1', 11, old),
    ['A1', 'read', 14, { lastsMs: 1, answer: 'read', value: 0 }],
    ['A1', 'pause', 20, { lastsMs: pauseMs, answer: 'over', value: pauseMs }],
    ['A1', 'write', wakesAt, { ...late, ...(isBare ? {} : { token: old }) }],
    ['A1', 'release', wakesAt + 5, { answer: isLate ? 'not-held' : 'released' }],
    ['B', 'acquire', 12, { lastsMs: nextAt - 12, answer: 'granted', token: next }],
    ...claims('B', nextAt + 1, next),
    ['B', 'read', nextAt + 3, { lastsMs: readsMs, answer: 'read', value: seen }],
    ['B', 'write', nextAt + 30, { lastsMs: 3, answer: 'applied', basis: seen, value: seen + 1 }],
    ['B', 'release', nextAt + 35, { answer: 'released' }],
  ]
  if (!isLate) return { made, state: wallet(['A1', 1], ['B', 2]) }
  return { made, state: isRefused ? wallet(['B', 1]) : wallet(['B', 1], ['A1', 1]) }
}

/** Granted at 10 ms, killed at 400, granted again at 1,310, written at 1,320. */
function crashRound(round: number): { made: MadeUp[]; state: WalletState } {
  const made: MadeUp[] = [
    ['A1', 'acquire', 0, { lastsMs: 10, answer: 'granted', token: `${round}1` }],
    ['B', 'acquire', 12, { lastsMs: 1_298, answer: 'granted', token: `${round}2` }],
    ['lab', 'kill', 400, { lastsMs: 2, answer: 'done' }],
    ['B', 'read', 1_312, { lastsMs: 1, answer: 'read', value: 0 }],
    ['B', 'write', 1_315, { lastsMs: 5, answer: 'applied', basis: 0, value: 1 }],
    ['B', 'release', 1_330, { answer: 'released' }],
  ]
  return { made, state: wallet(['B', 1]) }
}

function recordOf(
  arm: string,
  change: Change = (entry) => entry,
  rowsOf: Rows = (rows) => rows,
): TrialRecord {
  const isBare = arm === BARE
  const rows: WalletState[] = []
  const entries: Entry[] = []
  for (let round = 0; round < 2 * ROUNDS; round++) {
    const { made, state } = round < ROUNDS ? pauseRound(round, isBare) : crashRound(round)
    rows.push(state)
    entries.push(...trialEntries(arm, round, made))
  }
  return {
    arm: { name: arm, protected: !isBare },
    ...{ rounds: ROUNDS, size: 1 },
    entries: entries.map(change).filter((entry) => entry !== null),
    finals: rowsOf(rows),
  }
}

const changed =
  (round: number, process: string, op: string, more: Partial<Entry> | null): Change =>
  (entry) => {
    if (entry.round !== round || entry.process !== process || entry.op !== op) return entry
    return more && { ...entry, ...more }
  }

const row =
  (round: number, state: WalletState | undefined): Rows =>
  (rows) =>
    rows.map((one, at) => (at === round ? state : one))

/** The next holder has not seen what the first one wrote in time. */
const fromNothing: Change = (entry) => {
  if (entry.round !== SHORT || entry.process !== 'B') return entry
  if (entry.op === 'read') return { ...entry, value: 0 }
  return entry.op === 'write' ? { ...entry, basis: 0, value: 1 } : entry
}
const lostInTime = row(SHORT, wallet(['A1', 1], ['B', 1]))
const refusedInTime = changed(SHORT, 'A1', 'write', { answer: 'refused' })

const verdict = (record: TrialRecord): string => verdictOf(record.arm, ROUNDS, checkTtl(record))

describe('figures', () => {
  test('with a lock only, each pause that outlasts it loses an update', () => {
    const findings = checkTtl(recordOf(BARE))
    expect(findings).toEqual({
      ...{ rounds: ROUNDS, roundsTrue: ROUNDS, redrawn: 0, problems: [], breaches: [] },
      metrics: {
        ...{ ttlMs: 1_000, recoveryP50Ms: 920, recoveryMaxMs: 920, pauses: ROUNDS },
        ...{ overlaps: 1, lostUpdates: 1, refused: 0 },
      },
      timings: { longestPauseMs: 2_000 },
      bars: [expect.objectContaining({ ratio: 0.92, bar: 1.3, answer: 'OK' })],
    })
    expect(verdict(recordOf(BARE))).toBe('holds')
  })

  test('with the guard each of them is refused, and nothing is lost', () => {
    const findings = checkTtl(recordOf(GUARDED))
    expect(findings).toMatchObject({
      ...{ roundsTrue: ROUNDS, problems: [], breaches: [] },
      metrics: { overlaps: 1, lostUpdates: 0, refused: 1 },
    })
    expect(verdict(recordOf(GUARDED))).toBe('holds')
  })

  test('a write behind a pause that ends just when the next one reads may go either way', () => {
    const refused = changed(BETWEEN, 'A1', 'write', { answer: 'refused' })
    const unseen: Change = (entry) => {
      if (entry.round !== BETWEEN || entry.process !== 'B') return refused(entry)
      if (entry.op === 'read') return { ...entry, value: 0 }
      return entry.op === 'write' ? { ...entry, basis: 0, value: 1 } : entry
    }
    expect(verdict(recordOf(GUARDED, unseen, row(BETWEEN, wallet(['B', 1]))))).toBe('holds')
  })

  test('a recovery that is late misses its bar, and breaks nothing', () => {
    const late: Change = (entry) =>
      entry.round >= CRASH && entry.process === 'B' && entry.op === 'write'
        ? { ...entry, answeredAtUs: entry.answeredAtUs + 900_000 }
        : entry
    const slow = recordOf(GUARDED, (entry) => (entry.op === 'release' ? entry : late(entry)))
    const findings = checkTtl(slow)
    expect(findings.metrics['recoveryMaxMs']).toBe(1_820)
    expect(findings.bars?.map(({ answer }) => answer)).toEqual(['SHORT'])
  })

  test('a holder that had lost its lock before it was killed is none', () => {
    const missed = changed(CRASH, 'lab', 'kill', { calledAtUs: 9_000_000, answeredAtUs: 9_000_000 })
    const record = recordOf(GUARDED, missed)
    expect(checkTtl(record).problems).toEqual([])
    expect(verdict(record)).toBe('holds')
  })
})

describe('etcd, which grants whole seconds', () => {
  const ETCD = 'etcd, one member, lock + guard, ttl 1 s'
  const withGranted = (...values: readonly number[]): TrialRecord => {
    const record = recordOf(ETCD)
    const looks = values.map((value): MadeUp => ['lab', 'granted', 50, { answer: 'seen', value }])
    return { ...record, entries: [...record.entries, ...trialEntries(ETCD, CRASH, looks)] }
  }

  test('is measured by what it granted', () => {
    const findings = checkTtl(withGranted(2_000, 1_000))
    expect(findings.metrics).toMatchObject({ ttlMs: 1_000, grantedTtlMs: 2_000 })
    expect(findings.bars?.map(({ ratio }) => ratio)).toEqual([0.46])
    expect(verdict(withGranted(2_000))).toBe('holds')
  })

  test('whose sessions are shared, so that a lock ends when its holder said so, and not before', () => {
    const nextAt = (answeredAtUs: number, value: number): string => {
      const record = withGranted(1_000)
      const entries = record.entries.map((entry) => {
        if (entry.round !== LONG || entry.op !== 'acquire') return entry
        return entry.process === 'B' ? { ...entry, answeredAtUs } : { ...entry, value }
      })
      return verdict({ ...record, entries })
    }
    expect(nextAt(700_000, 650)).toBe('holds')
    expect(nextAt(640_000, 650)).toBe('broken')
  })

  test.each([
    ['nobody looked at it', []],
    ['it was less than was asked for', [900]],
  ] as const)('says nothing when %s', (_, values) => {
    expect(verdict(withGranted(...values))).toBe('void')
  })
})

describe('what breaks an arm', () => {
  const overwritten = row(LONG, wallet(['B', 1], ['A1', 1]))
  const guarded: [string, Change | undefined, Rows | undefined][] = [
    [
      'a late write that goes over the next holder’s',
      changed(LONG, 'A1', 'write', { answer: 'applied' }),
      overwritten,
    ],
    ['a late write that was refused and stands in the store', undefined, overwritten],
    [
      'a write in time that was refused',
      (entry) => refusedInTime(fromNothing(entry) ?? entry),
      row(SHORT, wallet(['B', 1])),
    ],
    ['an update that is lost although nobody was late', fromNothing, lostInTime],
    ['an acknowledged write that the store never had', undefined, row(LONG, wallet())],
    [
      'a next holder that was refused',
      changed(SHORT, 'B', 'write', { answer: 'refused' }),
      row(SHORT, wallet(['A1', 1])),
    ],
    [
      'a grant while the first one still held it',
      changed(LONG, 'B', 'acquire', { answeredAtUs: 900_000 }),
      undefined,
    ],
    ['a token that did not rise', changed(LONG, 'B', 'acquire', { token: '1' }), undefined],
    [
      'a crash after which nobody else could write',
      changed(CRASH, 'B', 'write', { answer: 'refused' }),
      row(CRASH, wallet()),
    ],
  ]
  test.each(guarded)('%s', (_, change, rowsOf) => {
    expect(verdict(recordOf(GUARDED, change, rowsOf))).toBe('broken')
  })

  test('a control in which a pause that outlasts the lock loses nothing', () => {
    const refused = changed(LONG, 'A1', 'write', { answer: 'refused' })
    expect(verdict(recordOf(BARE, refused, row(LONG, wallet(['B', 1]))))).toBe('broken')
  })

  test('a control that loses an update although nobody was late', () => {
    expect(verdict(recordOf(BARE, fromNothing, lostInTime))).toBe('broken')
  })
})

describe('what cannot be trusted', () => {
  const cases: [string, Change | undefined, Rows | undefined][] = [
    ['a pause that was none', changed(LONG, 'A1', 'pause', { answeredAtUs: 50_000 }), undefined],
    ['a pause that nobody wrote down', changed(LONG, 'A1', 'pause', null), undefined],
    ['a write behind the pause that is missing', changed(SHORT, 'A1', 'write', null), undefined],
    ['a next holder that did nothing', changed(SHORT, 'B', 'read', null), undefined],
    ['a claim that is missing', changed(SHORT, 'B', 'claim', null), undefined],
    ['something that failed', changed(LONG, 'A1', 'release', { answer: 'failed' }), undefined],
    [
      'a write that began before its read',
      changed(LONG, 'B', 'write', { calledAtUs: 5 }),
      undefined,
    ],
    [
      'a second holder in the first place',
      changed(LONG, 'A1', 'read', { process: 'A2' }),
      undefined,
    ],
    [
      'a holder that did two things at once',
      changed(SHORT, 'A1', 'release', { calledAtUs: 221_000 }),
      undefined,
    ],
    [
      'a holder that had given its lock back',
      changed(CRASH, 'B', 'read', { process: 'A1', op: 'release' }),
      undefined,
    ],
    ['a crash that nobody recorded', changed(CRASH, 'lab', 'kill', null), undefined],
    ['a crash of one that held nothing', changed(CRASH, 'A1', 'acquire', null), undefined],
    ['a row that nobody looked at', undefined, row(SHORT, undefined)],
    ['stores that nobody looked at', undefined, () => undefined],
    ['a write in the store that nobody made', undefined, row(SHORT, wallet(['A1', 1], ['C', 5]))],
  ]
  test.each(cases)('%s', (_, change, rowsOf) => {
    expect(verdict(recordOf(GUARDED, change, rowsOf))).toBe('void')
  })

  test.each([BARE, GUARDED])('%s, when no pause outlasted the lock', (arm) => {
    // All holders woke in time: then neither the loss nor the refusal was put to the test.
    const all = recordOf(arm)
    const short = all.entries.filter(({ round }) => round === SHORT)
    const rest = all.entries.filter(({ round }) => round !== LONG)
    const rows = all.finals as WalletState[]
    const entries = [...rest, ...short.map((entry) => ({ ...entry, round: LONG }))]
    const finals = rows.map((one, at) => (at === LONG ? rows[SHORT] : one))
    const record = { ...all, entries, finals }
    expect(checkTtl(record).problems).toEqual(['no pause outlasted the lock'])
    expect(verdict(record)).toBe('void')
  })

  test('most crashes having met nobody who held it', () => {
    const missed: Change = (entry) =>
      entry.op === 'kill' && entry.round > CRASH ? { ...entry, calledAtUs: 9_000_000 } : entry
    expect(verdict(recordOf(GUARDED, missed))).toBe('void')
  })
})
