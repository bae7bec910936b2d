import { describe, expect, test } from 'vitest'
import { verdictOf } from '../../src/lab/checker.ts'
import type { Entry } from '../../src/lab/history.ts'
import { checkSplitBrain } from '../../src/lab/scenarios/split-brain/check.ts'
import type { WalletState } from '../../src/lab/scenarios/wallet/stores.ts'
import type { TrialRecord } from '../../src/lab/trial.ts'
import { type MadeUp, trialEntries } from './fixtures/made-up-trial.ts'

const CUT_OFF = { name: 'redlock of 3, cut off', protected: true }
const CONTROL = { name: 'one redis, cut off', protected: false }
const ASKING = { name: 'redlock of 3, both ask', protected: true }

const ETCD_CUT_OFF = { name: 'etcd of 3, cut off', protected: true }
const ETCD_ASKING = { name: 'etcd of 3, both ask', protected: true }

type Change = (entry: Entry) => Entry | null
const same: Change = (entry) => entry
const changed =
  (process: string, op: string, more: Partial<Entry>): Change =>
  (entry) =>
    entry.process === process && entry.op === op ? { ...entry, ...more } : entry

const verdict = (record: TrialRecord): string =>
  verdictOf(record.arm, record.rounds, checkSplitBrain(record))

function stateOf(writes: readonly (readonly [string, number])[]): WalletState {
  const log = writes.map(([writer, newBalance], at) => ({
    ...{ writer, newBalance, oldBalance: writes[at - 1]?.[1] ?? 0 },
  }))
  return { balance: writes.at(-1)?.[1] ?? 0, log }
}

/** Held from 10 ms, cut off at 1,000, told at 3,300; its entries stood until 3,600 and 3,620. */
function cutOff(change: Change = same): TrialRecord {
  const made: MadeUp[] = [
    ['A', 'acquire', 0, { lastsMs: 10, answer: 'granted', owner: 'o', token: '100' }],
    ['lab', 'cut', 1_000, { lastsMs: 1 }],
    ['A', 'told', 3_300, { answer: 'expired', value: 20 }],
    ['lab', 'gone', 3_600, { lastsMs: 12, owner: 'o', value: 12, detail: 'port 1' }],
    ['lab', 'gone', 3_620, { lastsMs: 12, owner: 'o', value: 12, detail: 'port 2' }],
    ['B', 'acquire', 1_002, { lastsMs: 2_700, answer: 'granted', owner: 'p', token: '170' }],
    ['B', 'write', 3_800, { lastsMs: 5, answer: 'applied', value: 2, token: '170' }],
    ['A', 'write', 3_900, { lastsMs: 5, answer: 'refused', value: 3, token: '100' }],
  ]
  return recordOf(CUT_OFF, made, stateOf([['B', 2]]), change)
}

/** The same beside the leader of an etcd, which has one entry; the followers elected another leader. */
function etcdCutOff(change: Change = same): TrialRecord {
  const made: MadeUp[] = [
    ['A', 'acquire', 0, { lastsMs: 10, answer: 'granted', owner: 'o', token: '100' }],
    ['lab', 'cut', 1_000, { lastsMs: 20 }],
    ['A', 'renewal-failed', 1_700, { answer: 'OUTCOME_UNKNOWN' }],
    ['A', 'renewal-failed', 2_300, { answer: 'OUTCOME_UNKNOWN' }],
    ['A', 'told', 3_300, { answer: 'expired', value: 20 }],
    ['lab', 'gone', 6_400, { lastsMs: 12, owner: 'o', value: 12, detail: 'etcd' }],
    ['B', 'acquire', 1_025, { lastsMs: 5_475, answer: 'granted', owner: 'p', token: '170' }],
    ['lab', 'alone', 6_510, { lastsMs: 2, answer: 'alone' }],
    ['B', 'write', 6_600, { lastsMs: 5, answer: 'applied', value: 2, token: '170' }],
    ['A', 'write', 6_700, { lastsMs: 5, answer: 'refused', value: 3, token: '100' }],
  ]
  return recordOf(ETCD_CUT_OFF, made, stateOf([['B', 2]]), change)
}

/** The primary goes on; the replica's copy runs out at 3,600. */
function control(change: Change = same): TrialRecord {
  const made: MadeUp[] = [
    ['A', 'acquire', 0, { lastsMs: 10, answer: 'granted', owner: 'o', token: '100' }],
    ['lab', 'cut', 1_000, { lastsMs: 1 }],
    ['lab', 'gone', 3_600, { lastsMs: 12, owner: 'o', value: 12, detail: 'port 1' }],
    ['B', 'acquire', 1_002, { lastsMs: 2_700, answer: 'granted', owner: 'p', token: '170' }],
    ['B', 'write', 3_800, { lastsMs: 5, answer: 'applied', value: 2, token: '170' }],
    ['A', 'not-told', 3_850, { value: 20 }],
    ['A', 'write', 3_900, { lastsMs: 5, answer: 'applied', value: 3, token: '100' }],
  ]
  const state = stateOf([
    ['B', 2],
    ['A', 3],
  ])
  return recordOf(CONTROL, made, state, change)
}

function asking(change: Change = same): TrialRecord {
  const made: MadeUp[] = [
    ['B', 'greet', 0, { lastsMs: 3, answer: 'granted' }],
    ['A', 'before', 10, { lastsMs: 3, answer: 'granted' }],
    ['lab', 'cut', 20, { lastsMs: 1 }],
    ['A', 'minority', 30, { lastsMs: 1_502, answer: 'refused', value: 4 }],
    ['B', 'majority', 1_540, { lastsMs: 3, answer: 'granted' }],
    ['lab', 'mend', 1_550, { lastsMs: 1 }],
    ['A', 'after', 1_560, { lastsMs: 40, answer: 'granted' }],
  ]
  return recordOf(ASKING, made, null, change)
}

function etcdAsking(change: Change = same): TrialRecord {
  const made: MadeUp[] = [
    ['B', 'greet', 0, { lastsMs: 3, answer: 'granted' }],
    ['A', 'before', 10, { lastsMs: 3, answer: 'granted' }],
    ['lab', 'cut', 20, { lastsMs: 1 }],
    ['A', 'minority', 30, { lastsMs: 1_502, answer: 'refused', value: 4 }],
    ['B', 'majority', 1_540, { lastsMs: 3, answer: 'granted' }],
    ['lab', 'alone', 1_545, { lastsMs: 2, answer: 'alone' }],
    ['lab', 'mend', 1_550, { lastsMs: 1 }],
    ['A', 'after', 1_560, { lastsMs: 40, answer: 'granted' }],
  ]
  return recordOf(ETCD_ASKING, made, null, change)
}

function recordOf(
  arm: { name: string; protected: boolean },
  made: readonly MadeUp[],
  state: WalletState | null,
  change: Change,
): TrialRecord {
  const entries = trialEntries(arm.name, 0, made).map(change)
  const finals = state === null ? null : [state]
  return { arm, rounds: 1, size: 1, entries: entries.filter((one) => one !== null), finals }
}

describe('a holder that is cut off', () => {
  test('is told before its last entry beyond the partition is gone', () => {
    expect(checkSplitBrain(cutOff())).toMatchObject({
      ...{ rounds: 1, roundsTrue: 1, redrawn: 0, problems: [], breaches: [] },
      metrics: { toldBefore: 1, worstMarginMs: 320, heldByTwo: 0, refusedLate: 1 },
    })
    expect(verdict(cutOff())).toBe('holds')
  })

  test('by one Redis and its promoted replica it goes on, and so does its late write', () => {
    expect(checkSplitBrain(control())).toMatchObject({
      ...{ rounds: 1, roundsTrue: 1, problems: [] },
      metrics: { toldBefore: 0, heldByTwo: 1, refusedLate: 0 },
    })
    expect(verdict(control())).toBe('holds')
  })

  test.each<[string, Change]>([
    ['told when the last entry was gone', changed('A', 'told', { calledAtUs: 3_621_000 })],
    ['told when the next one has it', changed('A', 'told', { calledAtUs: 3_790_000 })],
    ['never told', changed('A', 'told', { op: 'not-told', calledAtUs: 3_850_000 })],
    ['whose successor has a smaller token', changed('B', 'acquire', { token: '99' })],
  ])('one %s breaks the arm', (_what, change) => {
    // Then two believe that they hold it, or the guard believes the wrong one.
    expect(verdict(cutOff(change))).toBe('broken')
  })

  test('a late write that took effect breaks the arm, whatever was answered', () => {
    // A guard that says no and lets it through, and one that says yes.
    const state = stateOf([
      ['B', 2],
      ['A', 3],
    ])
    expect(verdict({ ...cutOff(), finals: [state] })).toBe('broken')
    const applied = cutOff(changed('A', 'write', { answer: 'applied' }))
    expect(verdict({ ...applied, finals: [state] })).toBe('broken')
  })

  test.each<[string, Change]>([
    ['who was told all the same', changed('A', 'not-told', { op: 'told', calledAtUs: 3_500_000 })],
    ['whose late write was refused', changed('A', 'write', { answer: 'refused' })],
  ])('a control %s does not hold', (_what, change) => {
    // Then there was no partition, or something protected.
    expect(verdict(control(change))).not.toBe('holds')
  })

  test.each<[string, Change]>([
    ['its own process was not served', changed('A', 'told', { value: 900 })],
    ['the lab was not', changed('lab', 'gone', { value: 900 })],
    [
      'it lost its lease before the partition, for it was not served',
      changed('A', 'told', { calledAtUs: 500_000, value: 2_900 }),
    ],
  ])('a round in which %s does not count', (_what, change) => {
    // What is promised is promised to a running holder, and seen by a running lab.
    expect(checkSplitBrain(cutOff(change))).toMatchObject({ rounds: 0, redrawn: 1, problems: [] })
  })

  test.each<[string, Change, string]>([
    ['there was no partition', (one) => (one.op === 'cut' ? null : one), 'not complete'],
    ['B was granted nothing', (one) => (one.process === 'B' ? null : one), 'not complete'],
    ['it was told before', changed('A', 'told', { calledAtUs: 500_000 }), 'told before the'],
    [
      'only one node was seen',
      (one) => (one.detail === 'port 2' ? null : one),
      'seen to go on 1 of 2 nodes',
    ],
    ['another entry was seen', changed('lab', 'gone', { owner: 'x' }), 'not those of the holder'],
    ['B wrote nothing', changed('B', 'write', { answer: 'refused' }), 'could not write'],
    ['A wrote first', changed('A', 'write', { calledAtUs: 3_700_000 }), 'the writes are: A3,B2'],
    ['A did not wait', changed('A', 'write', { calledAtUs: 3_803_000 }), 'was not late'],
    [
      'B was granted it too early',
      changed('B', 'acquire', { answeredAtUs: 3_000_000 }),
      'while it stood there',
    ],
    ['a step failed', changed('A', 'write', { answer: 'failed', detail: 'x' }), 'write failed: x'],
  ])('a record in which %s is void', (_what, change, said) => {
    const findings = checkSplitBrain(cutOff(change))
    expect(findings.problems.join('\n')).toContain(said)
    expect(verdict(cutOff(change))).toBe('void')
  })

  test('a record without the row is void', () => {
    expect(verdict({ ...cutOff(), finals: undefined })).toBe('void')
  })
})

describe('beside the leader of an etcd', () => {
  test('a holder is told before its entry is gone; when is told too', () => {
    expect(checkSplitBrain(etcdCutOff())).toMatchObject({
      ...{ rounds: 1, roundsTrue: 1, redrawn: 0, problems: [], breaches: [] },
      metrics: { toldBefore: 1, worstMarginMs: 3_100, heldByTwo: 0, refusedLate: 1 },
      timings: { failureAfterMsMax: 680, toldAfterMsMax: 2_280, grantedAfterMsMin: 5_480 },
    })
    expect([etcdCutOff(), etcdAsking()].map(verdict)).toEqual(['holds', 'holds'])
  })

  test.each<[string, Change]>([
    ['told when its entry was gone', changed('A', 'told', { calledAtUs: 6_401_000 })],
    ['never told', changed('A', 'told', { op: 'not-told', calledAtUs: 6_650_000 })],
  ])('one %s breaks the arm', (_what, change) => {
    expect(verdict(etcdCutOff(change))).toBe('broken')
  })

  test.each<[string, Change, string]>([
    [
      'the member heard of the new leader',
      changed('lab', 'alone', { answer: 'it follows 7' }),
      'the member that was cut off said: it follows 7',
    ],
    [
      'nobody asked the member',
      (one) => (one.op === 'alone' ? null : one),
      'the member that was cut off said: nothing',
    ],
  ])('a record in which %s is void', (_what, change, said) => {
    // A hole in the partition: the old leader steps down at once, as it would not in a real one.
    for (const record of [etcdCutOff(change), etcdAsking(change)]) {
      expect(checkSplitBrain(record).problems.join()).toContain(said)
      expect(verdict(record)).toBe('void')
    }
  })
})

describe('both sides ask', () => {
  test('the minority is refused in its wait, the majority is granted it', () => {
    expect(checkSplitBrain(asking())).toMatchObject({
      ...{ rounds: 1, roundsTrue: 1, problems: [] },
      metrics: { minorityGranted: 0, majorityGranted: 1 },
    })
    expect(verdict(asking())).toBe('holds')
  })

  test.each<[string, Change]>([
    ['a minority that is granted it', changed('A', 'minority', { answer: 'granted' })],
    ['a majority that is not', changed('B', 'majority', { answer: 'refused' })],
  ])('%s breaks the arm', (_what, change) => {
    // The first is a split brain, the second an outage.
    expect(verdict(asking(change))).toBe('broken')
  })

  test('a refusal after the wait breaks it, except by what the caller itself stood still', () => {
    const shift = (one: Entry): Entry =>
      one.calledAtUs > 30_000
        ? { ...one, calledAtUs: one.calledAtUs + 1e6, answeredAtUs: one.answeredAtUs + 1e6 }
        : one
    const late = (value: number): Change => {
      const slow = changed('A', 'minority', { answeredAtUs: 1_900_000, value })
      return (one) => slow(shift(one))
    }
    expect(verdict(asking(late(0)))).toBe('broken')
    expect(verdict(asking(late(200)))).toBe('holds')
  })

  test.each<[string, Change, string]>([
    [
      'it was refused before',
      changed('A', 'before', { answer: 'refused' }),
      'before the partition',
    ],
    ['it was refused after', changed('A', 'after', { answer: 'refused' }), 'partition was over'],
    ['nobody asked', (one) => (one.op === 'minority' ? null : one), 'not complete'],
    ['it asked too early', changed('A', 'minority', { calledAtUs: 5_000 }), 'one after the other'],
    ['a step failed', changed('B', 'majority', { answer: 'failed', detail: 'x' }), 'failed: x'],
  ])('a record in which %s is void', (_what, change, said) => {
    // Whoever is refused without a partition as well says nothing about it.
    expect(checkSplitBrain(asking(change)).problems.join('\n')).toContain(said)
    expect(verdict(asking(change))).toBe('void')
  })
})
