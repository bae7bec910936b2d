import { describe, expect, test } from 'vitest'
import { verdictOf } from '../../src/lab/checker.ts'
import type { Entry } from '../../src/lab/history.ts'
import type { ArmRecord } from '../../src/lab/scenario.ts'
import { checkPause } from '../../src/lab/scenarios/pause/check.ts'
import {
  changed,
  pauseRecord,
  pauseRound,
  recordOf,
  SHAPES,
  type Shape,
} from './fixtures/made-up.ts'

const verdict = (record: ArmRecord): string =>
  verdictOf(record.arm, record.rounds, checkPause(record))

describe('figures', () => {
  test.each(Object.values(SHAPES))('$arm: the figures follow from the history', (shape: Shape) => {
    // The figures of the source: without a fence 100 of 200 updates are gone, with one none.
    const findings = checkPause(pauseRecord(shape, 4))
    expect(findings.problems).toEqual([])
    expect(findings.breaches).toEqual([])
    const isLost = shape.lateWrite === 'applied'
    expect(findings.metrics).toEqual({
      lostUpdates: isLost ? 4 : 0,
      refusedWrites: shape.lateWrite === 'refused' ? 4 : 0,
      stoppedByHolder: shape.lateWrite === 'lost' ? 4 : 0,
      finalBalance: isLost ? 4 : 8,
      expectedBalance: 8,
    })
    expect(findings).toMatchObject({ rounds: 4, roundsTrue: 4, redrawn: 0 })
    expect(verdict(pauseRecord(shape, 4))).toBe('holds')
  })
})

describe('verdicts', () => {
  test('a guard that refuses nobody is broken', () => {
    // Sabotage: the guard's arm behaves as if there were no guard.
    const shape = { ...SHAPES.lockOnly, claims: true }
    const bare = pauseRecord({ ...shape, arm: SHAPES.guard.arm }, 3)
    const record = { ...bare, arm: { name: SHAPES.guard.arm, protected: true } }
    expect(checkPause(record)).toMatchObject({ roundsTrue: 0, problems: [] })
    expect(verdict(record)).toBe('broken')
  })

  test('one lost update of four breaks an arm with protection', () => {
    // "Mostly right" is what a lock without a fence is.
    const good = [0, 1, 2].map((round) => pauseRound(SHAPES.guard, { round, balance: 2 * round }))
    const shape = { ...SHAPES.lockOnly, claims: true, arm: SHAPES.guard.arm }
    const rounds = [...good, pauseRound(shape, { round: 3, balance: 6 })]
    const record = recordOf(
      SHAPES.guard,
      4,
      rounds.flatMap(({ entries }) => entries),
      rounds.flatMap(({ log }) => log),
    )
    expect(checkPause(record)).toMatchObject({ rounds: 4, roundsTrue: 3 })
    expect(verdict(record)).toBe('broken')
  })

  test('a control in which nothing is lost is void', () => {
    // B wrote nothing that A could overwrite: the fault did not do what it is for.
    const { entries, log } = pauseRound(
      { ...SHAPES.column, arm: 'lock only' },
      { round: 0, balance: 0 },
    )
    const record = recordOf({ arm: 'lock only', lateWrite: 'applied' }, 1, entries, log)
    expect(checkPause(record)).toMatchObject({ rounds: 1, roundsTrue: 0, problems: [] })
    expect(verdict(record)).toBe('void')
  })

  test('the wrong line of defence breaks the arm', () => {
    // The lease arm shows that the holder stops itself; a refusal by the store would hide that.
    const shape = { ...SHAPES.guard, arm: SHAPES.lease.arm }
    expect(verdict(pauseRecord(shape, 2))).toBe('broken')
  })

  test('a next holder that waits longer than the validity breaks the arm that pauses inside', () => {
    // A paused holder inside a transaction kept the row for 3.5 s.
    // Here A's pause lasts 900 ms, so that B is done within it all the same.
    const withClaimWait = (waitMs: number): ArmRecord =>
      changed(pauseRecord(SHAPES.inside, 1), {
        entries: (entries) =>
          entries.map((entry) => {
            if (entry.op === 'pause') return later(entry, 0, 400)
            if (entry.process === 'A')
              return entry.calledAtUs < 520_000 ? entry : later(entry, 400, 400)
            if (entry.op === 'acquire') return entry
            return entry.op === 'claim' ? later(entry, 0, waitMs) : later(entry, waitMs, waitMs)
          }),
      })
    expect(verdict(withClaimWait(200))).toBe('holds')
    expect(checkPause(withClaimWait(260))).toMatchObject({
      ...{ rounds: 1, roundsTrue: 0, problems: [], breaches: [] },
      timings: { nextClaimWaitMsMax: 262 },
    })
    expect(verdict(withClaimWait(260))).toBe('broken')
  })
})

describe('what a store holds and nobody wrote down', () => {
  test('a write that was called refused and took effect is a breach', () => {
    // A guard that says no and does it all the same.
    const record = changed(pauseRecord(SHAPES.column, 1), {
      state: ({ log: [b, a] }) => ({
        balance: 2,
        log: [b, { writer: 'A', oldBalance: 1, newBalance: 1 }, a].filter(
          (row) => row !== undefined,
        ),
      }),
    })
    const { breaches } = checkPause(record)
    expect(breaches).toHaveLength(1)
    expect(breaches[0]).toContain('answered "refused"')
    expect(verdict(record)).toBe('broken')
  })

  test('a write that was called applied and is not there is a breach', () => {
    // An acknowledged update that the store does not have is lost, whoever lost it.
    const record = changed(pauseRecord(SHAPES.column, 1), {
      state: ({ log }) => ({ balance: 1, log: log.slice(0, 1) }),
    })
    expect(checkPause(record).breaches[0]).toContain('the store never had it')
    expect(verdict(record)).toBe('broken')
  })

  test.each([
    ['a balance that the log does not lead to', 3, undefined],
    ['a write by nobody in the log', 3, { writer: 'B', oldBalance: 2, newBalance: 3 }],
    ['a gap in the log', 4, { writer: 'B', oldBalance: 3, newBalance: 4 }],
  ])('%s is rejected', (_name, balance, row) => {
    // A final state that does not follow from the history means that something was not recorded.
    const record = changed(pauseRecord(SHAPES.column, 1), {
      state: ({ log }) => ({ balance, log: row === undefined ? log : [...log, row] }),
    })
    expect(checkPause(record).problems.length).toBeGreaterThan(0)
    expect(verdict(record)).toBe('void')
  })

  test('a final state that could not be read is rejected', () => {
    // A dead server must not look like an empty wallet.
    const record = pauseRecord(SHAPES.column, 1)
    const finals = record.finals.map(({ place }) => ({ place, state: null }))
    expect(verdict({ ...record, finals })).toBe('void')
  })
})

describe('histories that cannot be', () => {
  test.each(
    ['acquire', 'claim', 'read', 'write', 'release'].flatMap((op) =>
      ['A', 'B'].map((process) => [op, process] as const),
    ),
  )('a missing %s of %s is found', (op, process) => {
    // An operation that nobody recorded may be the one that broke the claim.
    const record = changed(pauseRecord(SHAPES.guard, 1), {
      entries: (entries) => without(entries, (e) => e.op === op && e.process === process),
    })
    expect(verdict(record)).toBe('void')
  })

  test('operations in an order in which no program does them are found', () => {
    // A write before its read was computed from something else.
    const record = changed(pauseRecord(SHAPES.column, 1), {
      entries: (entries) =>
        entries.map((entry) => {
          if (entry.process !== 'B') return entry
          if (entry.op === 'read') return { ...entry, calledAtUs: 319_000, answeredAtUs: 321_000 }
          if (entry.op === 'write') return { ...entry, calledAtUs: 316_000, answeredAtUs: 318_000 }
          return entry
        }),
    })
    expect(checkPause(record).problems.join()).toContain('not in order')
  })

  test('a read of a balance that never stood there is found', () => {
    // Such a value did not come from the store.
    const record = changed(pauseRecord(SHAPES.column, 2), {
      entries: (entries) =>
        entries.map((entry) =>
          entry.op === 'read' && entry.process === 'B' && entry.round === 1
            ? { ...entry, value: 7 }
            : entry.op === 'write' && entry.process === 'B' && entry.round === 1
              ? { ...entry, basis: 7, value: 8 }
              : entry,
        ),
    })
    const { problems } = checkPause(record)
    expect(problems.join()).toContain('B read 7, which did not stand there')
  })

  test('a write that was answered before another began cannot follow it in the store', () => {
    // The store's order and the clock's must be the same.
    const record = changed(pauseRecord(SHAPES.lockOnly, 1), {
      state: () => ({
        balance: 1,
        log: [
          { writer: 'A', oldBalance: 0, newBalance: 1 },
          { writer: 'B', oldBalance: 1, newBalance: 1 },
        ],
      }),
    })
    expect(checkPause(record).problems.join()).toContain('the store says after')
    expect(verdict(record)).toBe('void')
  })

  test('a value that was not computed from what was read is found', () => {
    // Then nothing about lost updates follows from it.
    const record = changed(pauseRecord(SHAPES.column, 1), {
      entries: (entries) =>
        entries.map((e) => (e.op === 'write' && e.process === 'B' ? { ...e, basis: 5 } : e)),
    })
    expect(checkPause(record).problems.join()).toContain('computed from 5')
  })
})

describe('a try that came to nothing', () => {
  const failedTry = (...ops: Pick<Entry, 'op' | 'answer'>[]): ArmRecord =>
    changed(pauseRecord(SHAPES.guard, 1), {
      entries: (entries) => [
        ...entries.map((e) => (e.process === 'B' ? { ...e, tryNumber: 2 } : e)),
        ...ops.map(({ op, answer }, index) => {
          const calledAtUs = (300 + 2 * index) * 1_000
          const times = { calledAtUs, answeredAtUs: calledAtUs + 1_000, wallMs: 0 }
          const token = answer === 'granted' ? { token: '1015' } : {}
          const who = { arm: SHAPES.guard.arm, lane: 0, round: 0, draw: 0, process: 'B', pid: 1 }
          return { ...who, ...times, ...token, op, answer, tryNumber: 1 }
        }),
      ],
    })

  test('is made again, and changes nothing', () => {
    // On a busy machine a lease of 300 ms runs out before the work has begun.
    const granted = { op: 'acquire', answer: 'granted' }
    const released = { op: 'release', answer: 'not-held' }
    const claimed = { op: 'claim', answer: 'granted' }
    const records = [
      failedTry({ op: 'acquire', answer: 'unanswered' }),
      failedTry(granted, { op: 'claim', answer: 'lost' }, released),
      failedTry(granted, claimed, { op: 'read', answer: 'cut' }, released),
    ]
    for (const record of records) {
      expect(checkPause(record)).toMatchObject({ roundsTrue: 1, problems: [], breaches: [] })
    }
  })

  test('cannot go on without a lock', () => {
    // A write under no lock at all is another experiment.
    const record = failedTry(
      { op: 'acquire', answer: 'unanswered' },
      { op: 'claim', answer: 'granted' },
    )
    expect(checkPause(record).problems.join()).toContain('it went on without a lock')
  })
})

describe('locks', () => {
  test('tokens that do not rise break an arm with protection', () => {
    // A token that repeats cannot tell old from new.
    const record = changed(pauseRecord(SHAPES.guard, 1), {
      entries: (entries) =>
        entries.map((e) =>
          e.process === 'B' && e.token !== undefined ? { ...e, token: '1010' } : e,
        ),
    })
    expect(checkPause(record).breaches.join()).toContain('was granted token 1010 after 1010')
    expect(verdict(record)).toBe('broken')
  })

  test('a lock that is granted while its holder’s TTL still runs breaks an arm', () => {
    // Two holders without any pause at all.
    const record = changed(pauseRecord(SHAPES.column, 1), {
      entries: (entries) =>
        entries.map((e) =>
          e.process === 'B' && e.op === 'acquire'
            ? { ...e, calledAtUs: 100_000, answeredAtUs: 101_000 }
            : e,
        ),
    })
    expect(checkPause(record).breaches.join()).toContain('a lock that A still held')
  })
})

describe('rounds that are drawn again', () => {
  /** Round 0 first with B too late, undone, then as planned. */
  function withLateDraw(first: Shape, second: Shape): ArmRecord {
    const late = pauseRound(first, { round: 0, draw: 0, slot: 0, balance: 0 })
    const again = pauseRound(second, { round: 0, draw: 1, slot: 1, balance: 0 })
    const end = late.log.at(-1)?.newBalance ?? 0
    const undo = { ...(late.entries[0] as Entry), process: 'lab', op: 'undo', answer: 'applied' }
    const entries = [
      ...late.entries.map((entry) =>
        entry.process === 'B' && entry.op === 'release'
          ? { ...entry, answeredAtUs: 525_000 }
          : entry,
      ),
      { ...undo, calledAtUs: 900_000, answeredAtUs: 901_000, value: 0 },
      ...again.entries,
    ]
    const back = { writer: 'lab', oldBalance: end, newBalance: 0 }
    return recordOf(second, 1, entries, [...late.log, back, ...again.log])
  }

  test('they do not count, and the balance is as if they had not been', () => {
    // A machine that was busy for a moment is no result.
    expect(checkPause(withLateDraw(SHAPES.guard, SHAPES.guard))).toMatchObject({
      ...{ rounds: 1, roundsTrue: 1, redrawn: 1, problems: [], breaches: [] },
      metrics: { refusedWrites: 1, finalBalance: 2, expectedBalance: 2 },
    })
  })

  test('an update that a guard lost in one of them breaks its arm', () => {
    // A guard that fails only when B is late would otherwise be drawn again until it looks right.
    const unguarded = { ...SHAPES.lockOnly, claims: true, arm: SHAPES.guard.arm }
    const record = withLateDraw(unguarded, SHAPES.guard)
    expect(checkPause(record)).toMatchObject({
      ...{ rounds: 1, roundsTrue: 1, redrawn: 1, problems: [] },
      breaches: ['round 0, drawn again, lost an update'],
    })
    expect(verdict(record)).toBe('broken')
  })

  test('the fence column does not promise anything for them', () => {
    // It guards writes only: a late write between B's read and B's write passes.
    const unguarded = { ...SHAPES.lockOnly, arm: SHAPES.column.arm }
    const record = withLateDraw(unguarded, SHAPES.column)
    expect(checkPause(record)).toMatchObject({ redrawn: 1, problems: [], breaches: [] })
    expect(verdict(record)).toBe('holds')
  })
})

function without(entries: readonly Entry[], isGone: (entry: Entry) => boolean): Entry[] {
  const gone = entries.findIndex(isGone)
  return entries.filter((_, index) => index !== gone)
}

function later(entry: Entry, callByMs: number, answerByMs: number): Entry {
  const calledAtUs = entry.calledAtUs + callByMs * 1_000
  return { ...entry, calledAtUs, answeredAtUs: entry.answeredAtUs + answerByMs * 1_000 }
}
