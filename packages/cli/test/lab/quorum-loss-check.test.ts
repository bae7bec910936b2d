import { describe, expect, test } from 'vitest'
import { verdictOf } from '../../src/lab/checker.ts'
import type { Entry } from '../../src/lab/history.ts'
import { quorumArms } from '../../src/lab/scenarios/quorum-loss/arms.ts'
import { checkQuorumLoss } from '../../src/lab/scenarios/quorum-loss/check.ts'
import { expectedOf } from '../../src/lab/scenarios/quorum-loss/expected.ts'
import type { WalletState } from '../../src/lab/scenarios/wallet/stores.ts'
import type { TrialRecord } from '../../src/lab/trial.ts'
import { type MadeUp, trialEntries } from './fixtures/made-up-trial.ts'

const OURS = { name: 'redlock of 3, empty restart', protected: true }
const ALL_LOST = { name: 'redlock of 3, all restart empty', protected: true }
const BY_HAND = { name: 'by hand on 3, empty restart', protected: false }
const BACK = { name: 'redlock of 3, all restart empty and clocks back', protected: false }
const ON_TWO = { name: 'redlock of 3, held on two, clock an hour ahead', protected: false }
const AHEAD = { name: 'redlock of 3, clock an hour ahead', protected: true }

type Change = (entry: Entry) => Entry | null

/** What happens in one round. */
interface Story {
  readonly nextToken: string
  /** B is granted it while A holds it. */
  readonly isEarly?: boolean
  readonly isRefused?: boolean
  readonly againToken?: string
}

/** Held from 10 ms on, for 4,000; lost at 200; B asks at 400, and is granted it then or at 4,100. */
function recordOf(
  arm: { name: string; protected: boolean },
  story: Story,
  change: Change = (entry) => entry,
): TrialRecord {
  const { nextToken, isEarly = false, isRefused = false, againToken = '400' } = story
  const { struck, lock, aheadSeconds, isReadmitted } = expectedOf(arm.name)
  const grant = (token: string): Partial<Entry> => ({ answer: 'granted', token })
  const nodes = Array.from({ length: struck }, (_, at) => `port ${at}`)
  const early: MadeUp[] = isEarly
    ? [['B', 'try', 400, { lastsMs: 5, ...grant(nextToken) }]]
    : [
        ['B', 'try', 400, { lastsMs: 300, answer: 'refused' }],
        ['B', 'acquire', 710, { lastsMs: 3_400, ...grant(nextToken) }],
      ]
  const made: MadeUp[] = [
    ['A', 'acquire', 0, { lastsMs: 5, ...grant('100') }],
    ['A', 'acquire', 10, { lastsMs: 5, ...grant('101') }],
    ['A', 'write', 20, { lastsMs: 5, answer: 'applied', value: 1 }],
    ['lab', 'lose', 200, { lastsMs: 50, answer: 'lost' }],
    ...nodes.map((detail): MadeUp => {
      return ['lab', 'look', 260, { answer: lock, value: aheadSeconds, detail }]
    }),
    ...early,
    ['B', 'write', 4_200, { lastsMs: 5, answer: isRefused ? 'refused' : 'applied', value: 2 }],
    ['A', 'write', 4_210, { lastsMs: 5, answer: isRefused ? 'applied' : 'refused', value: 3 }],
  ]
  if (isReadmitted) {
    for (const detail of nodes) {
      made.push(['lab', 'node', 410, { answer: 'waiting', detail }])
      made.push(['lab', 'node', 4_500, { answer: 'voting', detail }])
    }
    made.push(['B', 'again', 4_600, { lastsMs: 5, ...grant(againToken) }])
  }
  const writes: [string, number][] = [['A', 1]]
  writes.push(isRefused ? ['A', 3] : ['B', 2])
  const entries = trialEntries(arm.name, 0, made).map(change)
  const kept = entries.filter((entry) => entry !== null)
  return { arm, rounds: 1, size: 1, entries: kept, finals: [stateOf(writes)] }
}

function stateOf(writes: readonly (readonly [string, number])[]): WalletState {
  const log = writes.map(([writer, newBalance], at) => ({
    ...{ writer, newBalance, oldBalance: writes[at - 1]?.[1] ?? 0 },
  }))
  return { balance: writes.at(-1)?.[1] ?? 0, log }
}

const changed =
  (op: string, answer: string | null, more: Partial<Entry>): Change =>
  (entry) =>
    entry.op === op && (answer === null || entry.answer === answer) ? { ...entry, ...more } : entry

const without =
  (op: string): Change =>
  (entry) =>
    entry.op === op ? null : entry

const verdict = (record: TrialRecord): string => verdictOf(record.arm, 1, checkQuorumLoss(record))

const WELL: Story = { nextToken: '170' }
const WRONG: Story = { nextToken: '101', isRefused: true }

test('every arm that is run is expected, and the other way round', () => {
  // An arm whose expectations are another's would be judged by them.
  for (const { name } of quorumArms) expect(() => expectedOf(name)).not.toThrow()
  expect(new Set(quorumArms.map(({ name }) => name)).size).toBe(quorumArms.length)
  expect(() => expectedOf('redlock of 3, nothing')).toThrow('no such arm')
})

describe('figures', () => {
  test.each([OURS, ALL_LOST, AHEAD])('$name holds when the lock is kept and tokens rise', (arm) => {
    const findings = checkQuorumLoss(recordOf(arm, WELL))
    expect(findings).toMatchObject({
      ...{ rounds: 1, roundsTrue: 1, redrawn: 0, problems: [], breaches: [] },
      metrics: {
        ...{ tokensRepeated: 0, tokensFell: 0, refusedGood: 0, admittedStale: 0, heldByTwo: 0 },
        ...(arm !== AHEAD && { readmitted: 1 }),
      },
    })
    expect(verdict(recordOf(arm, WELL))).toBe('holds')
  })

  test('by hand a node that forgot makes a second majority, and tokens repeat', () => {
    const record = recordOf(BY_HAND, { ...WRONG, isEarly: true })
    expect(checkQuorumLoss(record).metrics).toEqual({
      ...{ tokensRepeated: 1, tokensFell: 0, refusedGood: 1, admittedStale: 1, heldByTwo: 1 },
    })
    expect(verdict(record)).toBe('holds')
  })

  test('what is not covered holds when exactly that goes wrong', () => {
    const fell: Story = { nextToken: '70', isRefused: true, againToken: '71' }
    expect(checkQuorumLoss(recordOf(BACK, fell)).metrics).toMatchObject({ tokensFell: 1 })
    expect(verdict(recordOf(BACK, fell))).toBe('holds')
    expect(verdict(recordOf(BACK, WELL))).toBe('void')
    expect(verdict(recordOf(ON_TWO, { ...WELL, isEarly: true }))).toBe('holds')
    expect(verdict(recordOf(ON_TWO, WELL))).toBe('void')
    // Two holders and a guard that believes the wrong one is more than is told.
    expect(verdict(recordOf(ON_TWO, { ...WRONG, isEarly: true }))).toBe('void')
  })

  test.each<[string, Story]>([
    ['two holders at once', { ...WELL, isEarly: true }],
    ['a token that repeats', { nextToken: '101' }],
    ['a token that fell', { nextToken: '99' }],
    ['a good write that is refused', { nextToken: '170', isRefused: true }],
    ['a token that fell when the node voted again', { ...WELL, againToken: '165' }],
  ])('%s breaks the arm', (_what, story) => {
    expect(verdict(recordOf(OURS, story))).toBe('broken')
  })

  test('a node that never votes again breaks the arm', () => {
    // Then the next node that is lost is the last.
    const record = recordOf(OURS, WELL, changed('node', 'voting', { answer: 'empty' }))
    expect(checkQuorumLoss(record).metrics).toMatchObject({ readmitted: 0 })
    expect(verdict(record)).toBe('broken')
  })

  test('a node that votes again before the forgotten locks are over breaks the arm', () => {
    // Nobody may have noticed this time.
    const soon = { calledAtUs: 3_000_000, answeredAtUs: 3_000_000 }
    const record = recordOf(OURS, WELL, changed('node', 'voting', soon))
    expect(checkQuorumLoss(record).breaches.join()).toContain('voted too early')
    expect(verdict(record)).toBe('broken')
  })

  test.each<[string, Story]>([
    ['in which B is refused', WRONG],
    ['in which tokens rise', { ...WELL, isEarly: true }],
  ])('a control %s is void', (_what, story) => {
    // Then nothing was lost.
    expect(verdict(recordOf(BY_HAND, story))).toBe('void')
  })

  test('a stale write that was called refused and took effect is a breach', () => {
    const finals = [
      stateOf([
        ['A', 1],
        ['B', 2],
        ['A', 3],
      ]),
    ]
    const record = { ...recordOf(OURS, WELL), finals }
    expect(checkQuorumLoss(record).breaches.join()).toContain('answered "refused"')
    expect(verdict(record)).toBe('broken')
  })
})

describe('records that do not fit together', () => {
  test('a round in which B asked too late does not count', () => {
    // When A’s lock is over, B is granted it by right.
    const late: Change = (entry) =>
      entry.process === 'B' || entry.calledAtUs > 4_000_000
        ? { ...entry, calledAtUs: entry.calledAtUs + 4e6, answeredAtUs: entry.answeredAtUs + 4e6 }
        : entry
    const findings = checkQuorumLoss(recordOf(OURS, WELL, late))
    expect(findings).toMatchObject({ rounds: 0, redrawn: 1, problems: [] })
  })

  test.each<[string, Change, string]>([
    [
      'A wrote nothing',
      changed('write', 'applied', { answer: 'failed', detail: 'x' }),
      'failed: x',
    ],
    ['nothing was lost', without('lose'), 'not as it should'],
    ['B did not try', without('try'), 'not as it should'],
    ['nobody asked again', without('again'), 'not as it should'],
    ['nobody looked', without('look'), '0 looks at 1 nodes'],
    ['the lock was there', changed('look', null, { answer: 'there' }), 'the lock was there'],
    ['the clock went back', changed('look', null, { value: -3_600 }), '-3600 s ahead'],
    ['no node waited', changed('node', 'waiting', { answer: 'empty' }), 'never waiting'],
    ['a token is missing', changed('again', null, { token: '0' }), 'a token is missing'],
    ['B asked too soon', changed('try', null, { calledAtUs: 210_000 }), 'began before lose'],
  ])('one in which %s is void', (_what, change, said) => {
    // It would be another experiment, or none.
    const record = recordOf(OURS, WELL, change)
    expect(checkQuorumLoss(record).problems.join('\n')).toContain(said)
    expect(verdict(record)).toBe('void')
  })

  test('one whose clock was not set back is void', () => {
    // It would show what the arm before it shows.
    const fell: Story = { nextToken: '70', isRefused: true, againToken: '71' }
    expect(verdict(recordOf(BACK, fell, changed('look', null, { value: 0 })))).toBe('void')
  })

  test('one without the row is void', () => {
    expect(verdict({ ...recordOf(OURS, WELL), finals: undefined })).toBe('void')
  })
})
