import { describe, expect, test } from 'vitest'
import { verdictOf } from '../../src/lab/checker.ts'
import type { Entry } from '../../src/lab/history.ts'
import { checkWatchdog } from '../../src/lab/scenarios/watchdog/check.ts'
import type { TrialRecord } from '../../src/lab/trial.ts'
import { type MadeUp, trialEntries } from './fixtures/made-up-trial.ts'

type Change = (made: readonly MadeUp[]) => readonly MadeUp[]

const same: Change = (made) => made

const without =
  (op: string): Change =>
  (made) =>
    made.filter((one) => one[1] !== op)

/** The nth operation of that name, counted from its end if it is negative, with other facts. */
const changed =
  (op: string, more: Partial<Entry> & { lastsMs?: number }, nth = 0): Change =>
  (made) => {
    const at = made.flatMap((one, index) => (one[1] === op ? [index] : [])).at(nth)
    return made.map((one, index) =>
      index === at ? [one[0], one[1], one[2], { ...one[3], ...more }] : one,
    )
  }

const recordOf = (arm: string, made: readonly MadeUp[], finals: unknown = null): TrialRecord => ({
  ...{ arm: { name: arm, protected: true }, rounds: 1, size: 1, finals },
  entries: trialEntries(arm, 0, made),
})

const verdict = (record: TrialRecord): string => verdictOf(record.arm, 1, checkWatchdog(record))

const kept = (atMs: number): MadeUp => ['lab', 'kept', atMs, { lastsMs: 3, answer: 'ok' }]
const grantedFor = (atMs: number, value: number): MadeUp => {
  return ['lab', 'granted', atMs, { lastsMs: 1, answer: 'seen', detail: 'name/1f/o', value }]
}

/** Kept alive at 400 and 1,200; the fault at 1,500; granted 3 s: it ends at 4,200 at the earliest. */
function failing(arm: string, toldAtMs: number, change: Change = same): TrialRecord {
  const made: MadeUp[] = [
    ['first process', 'acquire', 0, { lastsMs: 6, answer: 'granted', owner: 'o' }],
    ...[kept(400), kept(1_200), grantedFor(1_400, 3_000)],
    ['lab', 'fault', 1_500, { lastsMs: 1, answer: 'began' }],
    ['first process', 'told', toldAtMs, { value: 12 }],
  ]
  return recordOf(arm, change(made))
}

const FAULTS = ['etcd, silent', 'etcd, slow', 'etcd, hung', 'etcd, dead']

describe('an etcd that fails under its holder', () => {
  test.each(FAULTS)('%s: the margin counts from the last keep-alive that was answered', (arm) => {
    expect(checkWatchdog(failing(arm, 4_000))).toMatchObject({
      ...{ rounds: 1, roundsTrue: 1, problems: [], breaches: [] },
      metrics: { toldBeforeTtl: 1, worstMarginMs: 200, heldByTwo: 0, grantedTtlMs: 3_000 },
    })
    expect(verdict(failing(arm, 4_000))).toBe('holds')
    expect(checkWatchdog(failing(arm, 4_201)).metrics).toMatchObject({ worstMarginMs: -1 })
    expect(verdict(failing(arm, 4_201))).toBe('broken')
  })

  test('the TTL is the one that etcd granted', () => {
    // Whoever is told by the TTL that it asked for is told in time where more was granted.
    const longer = failing('etcd, hung', 4_500, changed('granted', { value: 4_000 }))
    expect(checkWatchdog(longer).metrics).toMatchObject({ worstMarginMs: 700, grantedTtlMs: 4_000 })
    expect(verdict(failing('etcd, hung', 4_500))).toBe('broken')
  })

  test('an answer that came after the fault counts only where it reached the holder', () => {
    const late = changed('kept', { lastsMs: 400 }, 1)
    const marginOf = (arm: string): unknown =>
      checkWatchdog(failing(arm, 3_300, late)).metrics['worstMarginMs']
    expect(FAULTS.map(marginOf)).toEqual([100, 100, 900, 900])
  })

  test('an answer that the session is over keeps nothing alive', () => {
    const over = changed('kept', { answer: 'over' }, 1)
    expect(checkWatchdog(failing('etcd, dead', 3_300, over)).metrics).toMatchObject({
      worstMarginMs: 100,
    })
  })

  test('somebody who is granted the lock before the holder is told breaks the arm', () => {
    const other: MadeUp = ['lab', 'other', 4_210, { lastsMs: 1, answer: 'granted' }]
    const held = failing('etcd, silent', 4_300, (made) => [...made, other])
    expect(checkWatchdog(held).metrics).toMatchObject({ heldByTwo: 1 })
    expect(verdict(held)).toBe('broken')
  })

  test('a place that is given up before its session ends counts until somebody else has it', () => {
    // The holder counts from before its keep-alive left, the lab from when that passed the proxy.
    const early = (toldAtMs: number): TrialRecord =>
      failing('etcd, slow', toldAtMs, (made) => [
        ...made,
        ['lab', 'other', 4_190, { lastsMs: 5, answer: 'granted' }],
      ])
    expect(checkWatchdog(early(4_000)).metrics).toMatchObject({ worstMarginMs: 190, heldByTwo: 0 })
    expect(verdict(early(4_000))).toBe('holds')
    expect(verdict(early(4_191))).toBe('broken')
  })

  test.each<[string, Change]>([
    ['nobody looked at what was granted', without('granted')],
    ['less was granted than was asked for', changed('granted', { value: 2_000 })],
    ['etcd named somebody else', changed('granted', { detail: 'name/1f/x' })],
    ['no keep-alive was answered', without('kept')],
    ['there was no fault', without('fault')],
    ['something failed', (made) => [...made, ['lab', 'x', 1, { answer: 'failed' }]]],
  ])('a round is void when %s', (_what, change) => {
    expect(verdict(failing('etcd, silent', 4_000, change))).toBe('void')
  })
})

/** Granted 2 s; held from 6 ms to 20,500 ms, kept alive every 700 ms. */
function longJob(change: Change = same): TrialRecord {
  const made: MadeUp[] = [
    ['first process', 'acquire', 0, { lastsMs: 6, answer: 'granted', owner: 'o' }],
    grantedFor(10, 2_000),
  ]
  for (let atMs = 700; atMs < 22_000; atMs += 700) made.push(kept(atMs))
  for (let atMs = 100; atMs < 20_400; atMs += 500) {
    made.push(['asker', 'ask', atMs, { lastsMs: 1, answer: 'refused' }])
    made.push(['lab', 'look', atMs, { lastsMs: 1, answer: 'seen', detail: 'name/1f/o', value: 1 }])
  }
  made.push(
    ['lab', 'job', 20, { lastsMs: 20_400, answer: 'over', value: 20 }],
    ['first process', 'release', 20_500, { lastsMs: 1, answer: 'released' }],
    ['first process', 'not-told', 20_510, { value: 30 }],
    ['asker', 'ask', 20_600, { lastsMs: 1, answer: 'granted' }],
  )
  return recordOf('etcd, long job', change(made))
}

describe('a job of ten TTLs on etcd', () => {
  test('that keeps its lock holds, and its renewals are the keep-alives of its session', () => {
    expect(checkWatchdog(longJob())).toMatchObject({
      ...{ rounds: 1, roundsTrue: 1, problems: [] },
      metrics: { renewals: 29, asks: 41, grantedToOthers: 0, grantedTtlMs: 2_000 },
    })
    expect(verdict(longJob())).toBe('holds')
  })

  test.each<[string, string, Change]>([
    ['broken', 'somebody else is granted it', changed('ask', { answer: 'granted' }, 3)],
    ['broken', 'etcd names somebody else', changed('look', { detail: 'name/1f/x' }, 3)],
    ['broken', 'it is nobody’s for a moment', changed('look', { detail: '', value: 0 }, 3)],
    ['broken', 'it is not its own in the end', changed('release', { answer: 'not-held' })],
    ['void', 'nobody looked at what was granted', without('granted')],
    [
      'void',
      'it lasted ten times less than what was granted',
      changed('granted', { value: 3_000 }),
    ],
  ])('is %s when %s', (wanted, _what, change) => {
    expect(verdict(longJob(change))).toBe(wanted)
  })
})

/** Granted 2 s where one was asked for; blocked from 50 to 3,060 ms. */
function blocked(change: Change = same, writes = ['early', 'next']): TrialRecord {
  const made: MadeUp[] = [
    ['blocked', 'acquire', 0, { lastsMs: 5, answer: 'granted', token: '7', owner: 'o' }],
    ['blocked', 'write', 10, { lastsMs: 5, answer: 'applied', detail: 'early' }],
    ['blocked', 'block', 50, { lastsMs: 3_010, answer: 'over', value: 3_010 }],
    grantedFor(55, 2_000),
    ['next', 'acquire', 60, { lastsMs: 2_300, answer: 'granted', token: '8' }],
    ['next', 'write', 2_400, { lastsMs: 5, answer: 'applied', detail: 'next' }],
    ['blocked', 'assert', 3_060, { answer: 'LEASE_LOST' }],
    ['blocked', 'told', 3_061],
    ['blocked', 'write', 3_070, { lastsMs: 5, answer: 'refused', detail: 'late' }],
  ]
  return recordOf('etcd, blocked loop', change(made), { byRound: [writes] })
}

describe('a holder that blocks its own event loop, on etcd', () => {
  test('is told late by the TTL that was granted, as expected, and does no harm', () => {
    expect(checkWatchdog(blocked())).toMatchObject({
      ...{ rounds: 1, roundsTrue: 1, problems: [], breaches: [] },
      metrics: { toldBeforeTtl: 0, worstMarginMs: -1_061, refusedWrites: 1, grantedTtlMs: 2_000 },
    })
    expect(verdict(blocked())).toBe('holds')
  })

  test.each<[string, string, TrialRecord]>([
    ['broken', 'its lease looks valid', blocked(changed('assert', { answer: 'valid' }))],
    ['broken', 'its late write is taken', blocked(changed('write', { answer: 'applied' }, 2))],
    ['broken', 'the store has it', blocked(undefined, ['early', 'next', 'late'])],
    ['void', 'nobody looked at what was granted', blocked(without('granted'))],
    ['void', 'the block was shorter than that', blocked(changed('block', { value: 2_400 }))],
  ])('is %s when %s', (wanted, _what, record) => {
    expect(verdict(record)).toBe(wanted)
  })
})
