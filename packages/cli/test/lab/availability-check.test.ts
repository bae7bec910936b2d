import { describe, expect, test } from 'vitest'
import { verdictOf } from '../../src/lab/checker.ts'
import type { Entry } from '../../src/lab/history.ts'
import { checkAvailability } from '../../src/lab/scenarios/availability/check.ts'
import type { TrialRecord } from '../../src/lab/trial.ts'
import { type MadeUp, trialEntries } from './fixtures/made-up-trial.ts'

const ROUNDS = 40

interface Shape {
  readonly arm: string
  readonly protected?: boolean
  readonly fault: string
  readonly nodes: string
  readonly answer: 'granted' | 'refused'
  readonly lastsMs: number
}

const HUNG: Shape = {
  ...{ arm: 'redlock of 3, one hung', fault: 'hung 1', nodes: 'alive alive silent' },
  ...{ answer: 'granted', lastsMs: 2 },
}
const TWO_KILLED: Shape = {
  ...{ arm: 'redlock of 3, two killed', fault: 'killed 2', nodes: 'alive gone gone' },
  ...{ answer: 'refused', lastsMs: 1_003 },
}
const CONTROL: Shape = {
  ...{ arm: 'one redis, killed', protected: false, fault: 'killed 1', nodes: 'gone' },
  ...{ answer: 'refused', lastsMs: 1_003 },
}
const LEADER_KILLED: Shape = {
  ...{ arm: 'etcd of 3, leader killed', fault: 'killed 1', nodes: 'alive alive gone' },
  ...{ answer: 'granted', lastsMs: 2 },
}
const ALIVE: Shape = {
  ...{ arm: 'redlock of 3, all alive', fault: 'nothing', nodes: 'alive alive alive' },
  ...{ answer: 'granted', lastsMs: 2 },
}

type Change = (entry: Entry) => Entry | null

/** Before the fault each takes 2 ms, one after the other; after it, as the shape says. */
function recordOf(shape: Shape, change: Change = (entry) => entry): TrialRecord {
  const entries: Entry[] = []
  for (let round = 0; round < ROUNDS; round++) {
    const made: MadeUp[] = [
      ['asker', 'before', 3 * round, { answer: 'granted', token: '7', lastsMs: 2, value: 1 }],
      [
        'asker',
        'acquire',
        1_000 + 3 * round,
        {
          ...{ answer: shape.answer, lastsMs: shape.lastsMs, value: 1 },
          ...(shape.answer === 'granted' && { token: '8' }),
        },
      ],
    ]
    entries.push(...trialEntries(shape.arm, round, made))
  }
  const lab: MadeUp[] = [
    ['lab', 'fault', 900, { lastsMs: 5, answer: shape.fault }],
    ['lab', 'look', 9_000, { lastsMs: 5, answer: shape.nodes }],
  ]
  entries.push(...trialEntries(shape.arm, 0, lab))
  const arm = { name: shape.arm, protected: shape.protected ?? true }
  const kept = entries.map(change).filter((entry) => entry !== null)
  return { arm, rounds: ROUNDS, size: 1, entries: kept, finals: null }
}

const changed =
  (op: string, round: number, more: Partial<Entry>): Change =>
  (entry) =>
    entry.op === op && entry.round === round ? { ...entry, ...more } : entry

const verdict = (record: TrialRecord): string =>
  verdictOf(record.arm, ROUNDS, checkAvailability(record))

describe('figures', () => {
  test('with one of three hung everybody is granted the lock, at a cost that is told', () => {
    const findings = checkAvailability(recordOf({ ...HUNG, lastsMs: 2.2 }))
    expect(findings).toMatchObject({
      ...{ rounds: ROUNDS, roundsTrue: ROUNDS, problems: [], breaches: [] },
      metrics: { tried: ROUNDS, succeeded: ROUNDS, p50Ms: 2.2, p99Ms: 2.2, maxMs: 2.2 },
      timings: { p50MsBefore: 2 },
      bars: [{ ratio: 1.1, spread: [1.1, 1.1], bar: 1.2, answer: 'OK' }],
    })
    expect(verdict(recordOf(HUNG))).toBe('holds')
  })

  test('the 198th of 200 is the p99, and one slow one is the longest', () => {
    // A mean would hide it, and a maximum alone would be the machine's.
    const slow = recordOf(ALIVE, changed('acquire', 3, { answeredAtUs: 2_009_000 }))
    expect(checkAvailability(slow).metrics).toMatchObject({ p50Ms: 2, p99Ms: 1_000, maxMs: 1_000 })
    expect(checkAvailability(slow).bars).toEqual([])
  })

  test('a bar that is missed is told, and decides nothing', () => {
    // A busy machine must not break what is true of locks.
    const record = recordOf({ ...HUNG, lastsMs: 9 })
    expect(checkAvailability(record).bars).toMatchObject([{ ratio: 4.5, answer: 'SHORT' }])
    expect(verdict(record)).toBe('holds')
  })

  test.each([TWO_KILLED, CONTROL])('$arm holds when nobody is granted anything', (shape) => {
    expect(checkAvailability(recordOf(shape)).metrics).toMatchObject({ tried: 40, succeeded: 0 })
    expect(verdict(recordOf(shape))).toBe('holds')
  })
})

describe('etcd without its leader', () => {
  test('grants every lock, and the one that waits for an election is the longest', () => {
    const waits = recordOf(LEADER_KILLED, changed('acquire', 3, { answeredAtUs: 2_009_000 }))
    expect(checkAvailability(waits).metrics).toMatchObject({ succeeded: ROUNDS, maxMs: 1_000 })
    expect(verdict(waits)).toBe('holds')
  })

  test('and one that is refused breaks the arm; a leader that lives makes it void', () => {
    const refused = changed('acquire', 3, { answer: 'refused', detail: 'x' })
    expect(verdict(recordOf(LEADER_KILLED, refused))).toBe('broken')
    expect(verdict(recordOf({ ...LEADER_KILLED, nodes: 'alive alive alive' }))).toBe('void')
  })
})

describe('what must not be', () => {
  test('one that is refused breaks an arm with a majority', () => {
    // 199 of 200 is an outage for somebody.
    const change = changed('acquire', 5, { answer: 'refused' })
    expect(checkAvailability(recordOf(HUNG, change)).metrics).toMatchObject({ succeeded: 39 })
    expect(verdict(recordOf(HUNG, change))).toBe('broken')
  })

  test('one that is granted by a minority breaks the arm', () => {
    // Two minorities would grant it to two.
    const change = changed('acquire', 5, { answer: 'granted', token: '9' })
    expect(verdict(recordOf(TWO_KILLED, change))).toBe('broken')
  })

  test('a refusal after the wait breaks it, except by what the caller itself stood still', () => {
    // Whoever waits for a second plans with a second.
    const late = { answeredAtUs: 1_000_000 + 15_000 + 1_400_000 }
    expect(verdict(recordOf(TWO_KILLED, changed('acquire', 5, late)))).toBe('broken')
    const stood = changed('acquire', 5, { ...late, value: 200 })
    expect(verdict(recordOf(TWO_KILLED, stood))).toBe('holds')
    expect(verdict(recordOf(CONTROL, changed('acquire', 5, late)))).toBe('holds')
  })

  test('a control in which everybody is granted the lock is void', () => {
    // Then nobody killed anything.
    const granted: Change = (entry) =>
      entry.op === 'acquire' ? { ...entry, answer: 'granted', token: '8' } : entry
    expect(verdict(recordOf(CONTROL, granted))).toBe('void')
  })
})

describe('records that do not fit together', () => {
  test.each<[string, Change, string]>([
    ['nothing happened', changed('fault', 0, { answer: 'nothing' }), 'the fault was: nothing'],
    [
      'the node came back',
      changed('look', 0, { answer: 'alive alive alive' }),
      'in the end the nodes were: alive alive alive',
    ],
    ['nobody looked', (entry) => (entry.op === 'look' ? null : entry), 'not looked at'],
    ['there was no fault', (entry) => (entry.op === 'fault' ? null : entry), '0 faults'],
    ['one asked too early', changed('acquire', 5, { calledAtUs: 1 }), 'wrong side of the fault'],
    ['one asked too late', changed('before', 5, { answeredAtUs: 950_000 }), 'wrong side'],
    [
      'one was refused before',
      changed('before', 5, { answer: 'refused', detail: 'LOCK_HELD' }),
      'refused before the fault: LOCK_HELD',
    ],
    [
      'one was not asked',
      (entry) => (entry.op === 'acquire' && entry.round === 9 ? null : entry),
      'round 9: 0 times acquire',
    ],
    ['one has no token', changed('acquire', 5, { token: '0' }), 'granted with token 0'],
    ['a step failed', changed('fault', 0, { answer: 'failed', detail: 'x' }), 'fault failed: x'],
  ])('one in which %s is void', (_what, change, said) => {
    // It would be another experiment, or none.
    const record = recordOf(HUNG, change)
    expect(checkAvailability(record).problems.join('\n')).toContain(said)
    expect(verdict(record)).toBe('void')
  })
})
