import { describe, expect, test } from 'vitest'
import { performancesOf, timeProblems, verdictOf, verdictOfAll } from '../../src/lab/checker.ts'
import type { Entry } from '../../src/lab/history.ts'
import { isDoneInPause } from '../../src/lab/scenarios/wallet/judge.ts'
import { FAULT, MadeUpRound, pauseRecord, pauseRound, SHAPES } from './fixtures/made-up.ts'

const clean = { problems: [], breaches: [] }

describe('the verdict of an arm', () => {
  test('an arm with protection holds only if its claim is true of every round', () => {
    // A single lost update in a hundred is a lost update.
    const arm = { protected: true }
    expect(verdictOf(arm, 100, { rounds: 100, roundsTrue: 100, ...clean })).toBe('holds')
    expect(verdictOf(arm, 100, { rounds: 100, roundsTrue: 99, ...clean })).toBe('broken')
    expect(verdictOf(arm, 100, { rounds: 100, roundsTrue: 0, ...clean })).toBe('broken')
  })

  test('an arm without protection that does not fail is void, one that fails sometimes broken', () => {
    // A fault that never happened lets every protection look good.
    const arm = { protected: false }
    expect(verdictOf(arm, 10, { rounds: 10, roundsTrue: 10, ...clean })).toBe('holds')
    expect(verdictOf(arm, 10, { rounds: 10, roundsTrue: 9, ...clean })).toBe('broken')
    expect(verdictOf(arm, 10, { rounds: 10, roundsTrue: 0, ...clean })).toBe('void')
  })

  test('missing rounds, no rounds and a history that does not fit together are void', () => {
    // A run that stopped half-way must not pass on the half that it did.
    for (const arm of [{ protected: true }, { protected: false }]) {
      expect(verdictOf(arm, 10, { rounds: 9, roundsTrue: 9, ...clean })).toBe('void')
      expect(verdictOf(arm, 0, { rounds: 0, roundsTrue: 0, ...clean })).toBe('void')
      const findings = { rounds: 10, roundsTrue: 10, problems: ['x'], breaches: [] }
      expect(verdictOf(arm, 10, findings)).toBe('void')
    }
  })

  test('a breach outside of the counted rounds breaks an arm with protection', () => {
    // An update lost in a round that is drawn again is lost all the same.
    const findings = { rounds: 10, roundsTrue: 10, problems: [], breaches: ['x'] }
    expect(verdictOf({ protected: true }, 10, findings)).toBe('broken')
  })

  test('one void arm makes the scenario void, one broken arm makes it broken', () => {
    // The arms with protection rest on the control.
    const of = (...verdicts: ('holds' | 'broken' | 'void')[]) =>
      verdictOfAll(verdicts.map((verdict) => ({ verdict })))
    expect(of('holds', 'holds')).toBe('holds')
    expect(of('holds', 'broken')).toBe('broken')
    expect(of('broken', 'void')).toBe('void')
  })
})

describe('performances', () => {
  test('a round is drawn again only if it did not go as planned', () => {
    // A lab that draws until it likes the result proves nothing.
    const record = pauseRecord(SHAPES.guard, 1)
    const again = pauseRound(SHAPES.guard, { round: 0, draw: 1, slot: 1, balance: 2 })
    const { problems } = performancesOf(
      { ...record, entries: [...record.entries, ...again.entries] },
      isDoneInPause,
    )
    expect(problems).toEqual(['round 0 was drawn again although it went as planned'])
  })

  test('a round that did not go as planned must have been undone', () => {
    // Its writes would count as updates of the rounds that follow.
    const late = lateRound()
    const record = { ...pauseRecord(SHAPES.guard, 0), entries: late.entries }
    expect(performancesOf(record, isDoneInPause).problems).toEqual([
      'round 0, draw 0, counts although it did not go as planned',
    ])
    late.add('lab', 'undo', 900, 901, { answer: 'applied', value: 0 })
    expect(performancesOf(record, isDoneInPause).problems).toEqual([])
  })

  test('a missing draw and overlapping rounds of one lane are found', () => {
    // A lane is one set of processes: it cannot do two rounds at once.
    const record = pauseRecord(SHAPES.guard, 1)
    const second = pauseRound(SHAPES.guard, { round: 1, draw: 1, slot: 0, balance: 2 })
    const { problems } = performancesOf(
      { ...record, entries: [...record.entries, ...second.entries] },
      isDoneInPause,
    )
    expect(problems).toEqual(['round 1: draw 0 is missing', 'rounds 0 and 1 of one lane overlap'])
  })
})

describe('times', () => {
  const problemsOf = (entries: readonly Entry[]): string[] => {
    const sorted = [...entries].sort((a, b) => a.answeredAtUs - b.answeredAtUs)
    const performance = { lane: 0, round: 0, draw: 0, undone: false, isAsPlanned: true }
    return timeProblems({ ...performance, entries: sorted }, FAULT)
  }
  const good = (): Entry[] => pauseRound(SHAPES.guard, { round: 0, balance: 0 }).entries

  test('a round as it should be has no problem', () => {
    // A checker that cries wolf is switched off.
    expect(problemsOf(good())).toEqual([])
  })

  test('an answer before the call and two operations of one process at once are impossible', () => {
    // Clocks that were mixed up would make every order look right.
    const backwards = good().map((entry) =>
      entry.op === 'read' && entry.process === 'B'
        ? { ...entry, calledAtUs: entry.answeredAtUs + 500 }
        : entry,
    )
    expect(problemsOf(backwards)).toEqual(['round 0: read of B was answered before it began'])
    const atOnce = new MadeUpRound('x', 0)
      .add('A', 'pause', 0, 510, { answer: 'over' })
      .add('A', 'write', 505, 511, { answer: 'applied' })
    expect(problemsOf(atOnce.entries)).toEqual(['round 0: write of A began before pause was over'])
  })

  test('a round without its pause, with a short one or with two is rejected', () => {
    // Without the fault the experiment shows nothing, whatever its figures are.
    const without = good().filter(({ op }) => op !== 'pause')
    expect(problemsOf(without)).toEqual(['round 0: A must pause once, 0 pauses are recorded'])
    const short = new MadeUpRound('x', 0).add('A', 'pause', 0, 200, { answer: 'over' })
    expect(problemsOf(short.entries)).toEqual(['round 0: the pause lasted 200 ms of 500'])
    short.add('A', 'pause', 210, 800, { answer: 'over' })
    expect(problemsOf(short.entries)).toEqual(['round 0: A must pause once, 2 pauses are recorded'])
  })

  test('a stopped process does nothing', () => {
    // A stop that did not stop leaves the writer running through its own pause.
    const stopped = new MadeUpRound('x', 0)
      .add('A', 'pause', 0, 510, { answer: 'over' })
      .add('lab', 'stop', 5, 6, { answer: 'stopped' })
      .add('lab', 'continue', 506, 507, { answer: 'continued' })
    expect(problemsOf(stopped.entries)).toEqual([])
    const early = new MadeUpRound('x', 0)
      .add('A', 'pause', 0, 505, { answer: 'over' })
      .add('lab', 'stop', 5, 6, { answer: 'stopped' })
      .add('lab', 'continue', 506, 507, { answer: 'continued' })
    expect(problemsOf(early.entries)).toEqual(['round 0: pause of A happened while A was stopped'])
  })

  test('an operation that failed is a problem, not a result', () => {
    // An error that is counted as "not applied" hides whatever it was.
    const failed = new MadeUpRound('x', 0)
      .add('A', 'pause', 0, 510, { answer: 'over' })
      .add('B', 'read', 0, 1, { answer: 'failed', detail: 'connection refused' })
    expect(problemsOf(failed.entries)).toEqual(['round 0: read of B failed: connection refused'])
  })
})

/** B is done after A's pause: the fault did not separate them. */
function lateRound(): MadeUpRound {
  const made = new MadeUpRound(SHAPES.guard.arm, 0)
  made.add('A', 'pause', 10, 520, { answer: 'over' })
  return made.add('B', 'write', 519, 521, { answer: 'applied', value: 1, basis: 0 })
}
