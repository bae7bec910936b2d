import { describe, expect, test } from 'vitest'
import { verdictOf } from '../../src/lab/checker.ts'
import type { Entry } from '../../src/lab/history.ts'
import { checkWatchdog } from '../../src/lab/scenarios/watchdog/check.ts'
import type { TrialRecord } from '../../src/lab/trial.ts'
import { type MadeUp, trialEntries } from './fixtures/made-up-trial.ts'

const verdict = (record: TrialRecord): string =>
  verdictOf(record.arm, record.rounds, checkWatchdog(record))

function recordOf(name: string, rounds: readonly Entry[][], finals: unknown = null): TrialRecord {
  const arm = { name, protected: name !== 'renewed by hand, silent' }
  return { arm, rounds: rounds.length, size: 1, entries: rounds.flat(), finals }
}

interface Fate {
  /** Null: never. */
  readonly toldAtMs: number | null
  readonly gapMs?: number
  readonly otherAtMs?: number | null
  /** Takes entries out, or changes them. */
  readonly change?: (made: readonly MadeUp[]) => readonly MadeUp[]
}

/** Acquired at 0, renewed at 600 and 1,200 by requests of 5 ms; the fault at 1,500; TTL 3,000. */
function failing(arm: string, round: number, fate: Fate): Entry[] {
  const { toldAtMs, gapMs = 12, otherAtMs = null, change = (made) => made } = fate
  const asked = (atMs: number): MadeUp[] => [
    ['lab', 'request', atMs, { answer: 'about-lock' }],
    ['lab', 'reply', atMs + 5],
  ]
  const made: MadeUp[] = [
    ...asked(0),
    ['ioredis', 'acquire', 0, { lastsMs: 6, answer: 'granted', owner: 'o' }],
    ...asked(600),
    ...asked(1_200),
    ['lab', 'fault', 1_500, { lastsMs: 1, answer: 'began' }],
    ['lab', 'request', 1_800, { answer: 'about-lock' }],
    toldAtMs === null
      ? ['ioredis', 'not-told', 5_600, { value: gapMs }]
      : ['ioredis', 'told', toldAtMs, { value: gapMs }],
  ]
  if (otherAtMs !== null) made.push(['lab', 'other', otherAtMs, { lastsMs: 1, answer: 'granted' }])
  return trialEntries(arm, round, change(made))
}

const FAULTS = ['silent', 'slow', 'hung', 'dead']

describe('a store that fails under its holder', () => {
  test.each(FAULTS)('%s: the margin counts from the last request that was answered', (name) => {
    // A margin that counts from the last request sent would be longer than the lock lives.
    const record = recordOf(
      name,
      [0, 1].map((round) => failing(name, round, { toldAtMs: 4_000 })),
    )
    expect(checkWatchdog(record)).toMatchObject({
      ...{ rounds: 2, roundsTrue: 2, redrawn: 0, problems: [], breaches: [] },
      metrics: { toldBeforeTtl: 2, rounds: 2, worstMarginMs: 200, heldByTwo: 0 },
    })
    expect(verdict(record)).toBe('holds')
  })

  test.each(FAULTS)('%s: one holder that is told a millisecond late breaks the arm', (name) => {
    // Late is late: somebody else may have been granted the lock by then.
    const rounds = [4_000, 4_201].map((toldAtMs, round) => failing(name, round, { toldAtMs }))
    expect(checkWatchdog(recordOf(name, rounds)).metrics).toMatchObject({
      ...{ toldBeforeTtl: 1, rounds: 2, worstMarginMs: -1 },
    })
    expect(verdict(recordOf(name, rounds))).toBe('broken')
  })

  test.each(FAULTS)('%s: a holder that is never told breaks the arm', (name) => {
    // No word at all has no time; it counts as the time until which it was watched.
    const record = recordOf(name, [failing(name, 0, { toldAtMs: null })])
    expect(checkWatchdog(record).metrics).toMatchObject({ toldBeforeTtl: 0, worstMarginMs: -1_400 })
    expect(verdict(record)).toBe('broken')
  })

  test('a reply that was seen after the fault counts only where it reached the holder', () => {
    // With a delay the proxy sees the reply at once, and the holder after its TTL.
    const late = (made: readonly MadeUp[]): readonly MadeUp[] => [...made, ['lab', 'reply', 1_810]]
    const of = (name: string): Record<string, number> =>
      checkWatchdog(recordOf(name, [failing(name, 0, { toldAtMs: 4_000, change: late })])).metrics
    expect(of('slow')).toMatchObject({ worstMarginMs: 200 })
    expect(of('hung')).toMatchObject({ worstMarginMs: 800 })
  })

  test('an error of the store renews nothing', () => {
    // A reply is not a yes.
    const refused = (made: readonly MadeUp[]): readonly MadeUp[] =>
      made.map((one) =>
        one[1] === 'reply' && one[2] === 1_205
          ? [one[0], one[1], one[2], { answer: 'error' }]
          : one,
      )
    const { metrics } = checkWatchdog(
      recordOf('hung', [failing('hung', 0, { toldAtMs: 3_500, change: refused })]),
    )
    expect(metrics).toMatchObject({ worstMarginMs: 100 })
  })

  test('what is asked about anything else renews nothing', () => {
    // The first grant is followed by a question about the server, which was taken for a renewal.
    const asks: MadeUp[] = [
      ['lab', 'request', 1_300, { answer: 'about-nothing' }],
      ['lab', 'reply', 1_310],
    ]
    const { metrics } = checkWatchdog(
      recordOf('dead', [
        failing('dead', 0, { toldAtMs: 4_000, change: (made) => [...made, ...asks] }),
      ]),
    )
    expect(metrics).toMatchObject({ worstMarginMs: 200 })
  })

  test('a round whose holder was not running is no round of a running holder', () => {
    // A process that waited for a core for 300 ms could not be told by anybody.
    const rounds = [
      failing('hung', 0, { toldAtMs: 4_000 }),
      failing('hung', 1, { toldAtMs: 4_300, gapMs: 300 }),
    ]
    expect(checkWatchdog(recordOf('hung', rounds))).toMatchObject({ rounds: 1, redrawn: 1 })
    // And it is missing: the arm must have done another one.
    expect(verdict(recordOf('hung', rounds))).toBe('void')
    // It may have lost its lock by that alone, before anything failed.
    const lost = failing('hung', 1, { toldAtMs: 1_400, gapMs: 300 })
    expect(checkWatchdog(recordOf('hung', [lost]))).toMatchObject({ redrawn: 1, problems: [] })
  })

  test('a control whose holder never hears while another one holds the lock is what it must be', () => {
    // Without that the fault would not have been one.
    const name = 'renewed by hand, silent'
    const two = recordOf(name, [failing(name, 0, { toldAtMs: null, otherAtMs: 4_210 })])
    expect(checkWatchdog(two).metrics).toMatchObject({ toldBeforeTtl: 0, heldByTwo: 1 })
    expect(verdict(two)).toBe('holds')
    expect(verdict(recordOf(name, [failing(name, 0, { toldAtMs: null })]))).toBe('void')
    const told = failing(name, 0, { toldAtMs: 4_000, otherAtMs: 4_210 })
    expect(verdict(recordOf(name, [told]))).toBe('void')
  })

  test('somebody who is granted the lock before the holder is told breaks the arm', () => {
    // The TTL that was counted is then not the store's.
    const held = failing('silent', 0, { toldAtMs: 4_300, otherAtMs: 4_210 })
    expect(checkWatchdog(recordOf('silent', [held])).metrics).toMatchObject({ heldByTwo: 1 })
    expect(verdict(recordOf('silent', [held]))).toBe('broken')
  })

  test.each<[string, Fate]>([
    [
      'without a fault',
      { toldAtMs: 4_000, change: (made) => made.filter(([, op]) => op !== 'fault') },
    ],
    [
      'without a grant',
      { toldAtMs: 4_000, change: (made) => made.filter(([, op]) => op !== 'acquire') },
    ],
    [
      'without an answer',
      { toldAtMs: 4_000, change: (made) => made.filter(([, op]) => op !== 'reply') },
    ],
    [
      'without an end',
      { toldAtMs: 4_000, change: (made) => made.filter(([, op]) => op !== 'told') },
    ],
    ['told twice', { toldAtMs: 4_000, change: (made) => [...made, ['ioredis', 'told', 4_001]] }],
    ['told before the fault', { toldAtMs: 1_400 }],
    ['with a grant to others before its TTL was over', { toldAtMs: 4_000, otherAtMs: 4_100 }],
    [
      'not watched to the end',
      {
        toldAtMs: null,
        change: (made) =>
          made.map((one) => (one[1] === 'not-told' ? [one[0], one[1], 4_100, { value: 1 }] : one)),
      },
    ],
    [
      'with a failure',
      {
        toldAtMs: 4_000,
        change: (made) => [...made, ['lab', 'x', 10, { answer: 'failed', detail: 'why' }]],
      },
    ],
  ])('a round %s is void', (_what, fate) => {
    // What is missing may be what decided.
    expect(verdict(recordOf('silent', [failing('silent', 0, fate)]))).toBe('void')
  })
})
