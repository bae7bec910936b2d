import { describe, expect, test } from 'vitest'
import { verdictOf } from '../../src/lab/checker.ts'
import type { Entry, Outcome } from '../../src/lab/history.ts'
import { checkDataLoss } from '../../src/lab/scenarios/data-loss/check.ts'
import type { WalletState } from '../../src/lab/scenarios/wallet/stores.ts'
import type { TrialRecord } from '../../src/lab/trial.ts'

const INCR = { name: 'INCR, empty restart', protected: false }
const OURS = { name: 'Holdfast, empty restart', protected: true }
const BACK = { name: 'Holdfast, empty restart and clock back', protected: false }

/** What happens in one round. */
interface Story {
  /** Of A, in order; the last one is held when the data are lost. */
  readonly tokens: readonly string[]
  readonly nextToken: string
  readonly next: 'applied' | 'refused'
  readonly late: 'applied' | 'refused'
  readonly aheadSeconds?: number
}

const WELL: Story = { tokens: ['100', '101'], nextToken: '170', next: 'applied', late: 'refused' }
const RESTARTED: Story = { tokens: ['1', '2'], nextToken: '1', next: 'refused', late: 'applied' }
const REPEATED: Story = { ...RESTARTED, nextToken: '2' }
const FELL: Story = { ...WELL, nextToken: '70', next: 'refused', late: 'applied' }

interface MadeUp extends TrialRecord {
  readonly entries: Entry[]
  readonly finals: WalletState[]
}

function recordOf(arm: { name: string; protected: boolean }, ...stories: Story[]): MadeUp {
  const entries: Entry[] = []
  const finals = stories.map((story, round) => {
    let atUs = 0
    const add = (process: string, op: string, outcome: Outcome): void => {
      const times = { calledAtUs: atUs, answeredAtUs: atUs + 500, wallMs: 0 }
      atUs += 1_000
      const id = { arm: arm.name, lane: 0, round, draw: 0 }
      entries.push({ ...id, process, pid: 1, op, ...times, ...outcome })
    }
    const held = story.tokens.at(-1) ?? ''
    story.tokens.forEach((token, index) => {
      add('A', 'acquire', { answer: 'granted', token })
      if (index < story.tokens.length - 1) add('A', 'release', { answer: 'released' })
    })
    add('A', 'write', { answer: 'applied', value: 1, token: held })
    add('lab', 'lose', { answer: 'restarted-empty' })
    add('lab', 'look', { answer: 'gone', value: story.aheadSeconds ?? 0 })
    add('B', 'acquire', { answer: 'granted', token: story.nextToken })
    add('B', 'write', { answer: story.next, value: 2, token: story.nextToken })
    add('A', 'write', { answer: story.late, value: 3, token: held })
    return stateOf([
      ['A', 1],
      ...(story.next === 'applied' ? ([['B', 2]] as const) : []),
      ...(story.late === 'applied' ? ([['A', 3]] as const) : []),
    ])
  })
  return { arm, rounds: stories.length, size: 1, entries, finals }
}

function stateOf(writes: readonly (readonly [string, number])[]): WalletState {
  const log = writes.map(([writer, newBalance], index) => ({
    ...{ writer, newBalance },
    oldBalance: writes[index - 1]?.[1] ?? 0,
  }))
  return { balance: writes.at(-1)?.[1] ?? 0, log }
}

const verdict = (record: TrialRecord): string =>
  verdictOf(record.arm, record.rounds, checkDataLoss(record))

describe('figures', () => {
  test('tokens that restart or repeat, and what the guard makes of them', () => {
    // The holder that everybody should believe is refused, and the one that lost its lock is not.
    const record = recordOf(INCR, RESTARTED, REPEATED, { ...RESTARTED, tokens: ['4', '6'] })
    expect(checkDataLoss(record)).toMatchObject({
      ...{ rounds: 3, roundsTrue: 3, problems: [], breaches: [] },
      metrics: { tokensRepeated: 2, tokensFell: 2, refusedGood: 3, admittedStale: 3 },
    })
    expect(verdict(record)).toBe('holds')
  })

  test('tokens that go on rising', () => {
    // B is believed, A is not: exclusion was lost, the data are right.
    const record = recordOf(OURS, WELL, WELL)
    expect(checkDataLoss(record)).toMatchObject({
      ...{ rounds: 2, roundsTrue: 2, problems: [], breaches: [] },
      metrics: { tokensRepeated: 0, tokensFell: 0, refusedGood: 0, admittedStale: 0 },
    })
    expect(verdict(record)).toBe('holds')
  })

  test('the arm that is not covered holds when it fails, and not when it does not', () => {
    // It shows where the protection ends; if nothing went wrong it showed nothing.
    const back = { aheadSeconds: -3_600 }
    expect(verdict(recordOf(BACK, { ...FELL, ...back }))).toBe('holds')
    expect(verdict(recordOf(BACK, { ...WELL, ...back }))).toBe('void')
  })

  test.each([
    ['a token that repeats', { ...WELL, nextToken: '101' }],
    ['a token that fell', FELL],
    ['a good write that is refused', { ...WELL, next: 'refused' }],
    ['a stale write that is admitted', { ...WELL, late: 'applied' }],
  ] as const)('%s breaks the arm of Holdfast', (_what, story) => {
    // One of ten is one too many.
    const record = recordOf(OURS, WELL, story as Story)
    expect(checkDataLoss(record)).toMatchObject({ rounds: 2, roundsTrue: 1 })
    expect(verdict(record)).toBe('broken')
  })

  test.each<[string, Story]>([
    ['whose tokens rise all the same', { ...RESTARTED, tokens: ['1', '2'], nextToken: '3' }],
    ['in which the good write is admitted', { ...RESTARTED, next: 'applied' }],
    ['in which the stale write is refused', { ...RESTARTED, late: 'refused' }],
  ])('a control %s is void', (_what, story) => {
    // Then nothing was lost, or the guard was none.
    expect(verdict(recordOf(INCR, story))).toBe('void')
  })
})

describe('what nobody reports', () => {
  test('a stale write that was called refused and took effect is a breach', () => {
    // A guard that says no and lets it through.
    const record = recordOf(OURS, WELL)
    const finals = [
      stateOf([
        ['A', 1],
        ['B', 2],
        ['A', 3],
      ]),
    ]
    const findings = checkDataLoss({ ...record, finals })
    expect(findings.metrics).toMatchObject({ admittedStale: 1 })
    expect(findings.breaches.join()).toContain('answered "refused"')
    expect(verdict({ ...record, finals })).toBe('broken')
  })

  test('a good write that was called applied and is not there is a breach', () => {
    // Acknowledged, and lost.
    const record = { ...recordOf(OURS, WELL), finals: [stateOf([['A', 1]])] }
    expect(checkDataLoss(record).metrics).toMatchObject({ refusedGood: 1 })
    expect(verdict(record)).toBe('broken')
  })
})

describe('records that do not fit together', () => {
  const changed = (change: (entry: Entry) => Entry | null): TrialRecord => {
    const record = recordOf(OURS, WELL)
    return { ...record, entries: record.entries.map(change).filter((entry) => entry !== null) }
  }

  test.each([
    ['A', 'acquire'],
    ['A', 'write'],
    ['lab', 'lose'],
    ['lab', 'look'],
    ['B', 'acquire'],
    ['B', 'write'],
  ])('a round without %s %s is void', (process, op) => {
    // The step that is missing may be the one that went wrong.
    const record = changed((entry) => (entry.process === process && entry.op === op ? null : entry))
    expect(checkDataLoss(record).problems.length).toBeGreaterThan(0)
    expect(verdict(record)).toBe('void')
  })

  test.each<[string, string, Partial<Entry>, string]>([
    ['the lock survived the loss', 'look', { answer: 'there' }, 'survived the loss'],
    ['the clock went back', 'look', { value: -3_600 }, 'the clock of Redis was -3600 s ahead'],
    ['a step failed', 'lose', { answer: 'failed', detail: 'gone' }, 'lose of lab failed: gone'],
    ['a step ended before it began', 'look', { answeredAtUs: -1 }, 'was answered before it began'],
    ['a step began too soon', 'lose', { calledAtUs: 3_100 }, 'began before write was over'],
    ['a write with another token', 'write', { token: '5' }, 'which is not its own'],
    ['a grant without a token', 'acquire', { token: '0' }, 'was not granted a token'],
    ['two writes in one', 'write', { value: 2 }, 'the writes are'],
  ])('a round in which %s is void', (_what, op, change, said) => {
    // Then it is another experiment, or none.
    const record = changed((entry) => (entry.op === op ? { ...entry, ...change } : entry))
    expect(checkDataLoss(record).problems.join('\n')).toContain(said)
    expect(verdict(record)).toBe('void')
  })

  test('a round of the last arm whose clock was not set back is void', () => {
    // It would show what the arm before it shows.
    expect(verdict(recordOf(BACK, { ...FELL, aheadSeconds: -1 }))).toBe('void')
  })

  test('tokens that did not rise before the loss are found', () => {
    // Then what comes after it proves nothing.
    const record = recordOf(OURS, { ...WELL, tokens: ['101', '100'] })
    expect(checkDataLoss(record).problems.join()).toContain('A was granted 100 after 101')
  })

  test('a row that is missing, or one too many, is found', () => {
    // A round whose outcome nobody knows.
    const record = recordOf(OURS, WELL, WELL)
    expect(verdict({ ...record, finals: record.finals.slice(0, 1) })).toBe('void')
    expect(verdict({ ...record, finals: [...record.finals, stateOf([])] })).toBe('void')
    expect(verdict({ ...record, finals: undefined })).toBe('void')
  })
})
