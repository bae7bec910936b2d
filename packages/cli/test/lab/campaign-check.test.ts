import { describe, expect, test } from 'vitest'
import { verdictOf } from '../../src/lab/checker.ts'
import type { Entry } from '../../src/lab/history.ts'
import type { Book } from '../../src/lab/scenarios/campaign/book.ts'
import { checkCampaign } from '../../src/lab/scenarios/campaign/check.ts'
import type { TrialRecord } from '../../src/lab/trial.ts'

const PODS = 8

interface Made extends TrialRecord {
  readonly finals: Book
}

/** Pods take turns, one prize each; where there is a lock the first pod pauses once. */
function campaign(name: string, limit: number, granted: number): Made {
  const isProtected = name === 'lock + guard'
  const entries: Entry[] = []
  const add = (pod: number, op: string, atMs: number, lastsMs: number, more: object): void => {
    const id = { arm: name, lane: 0, round: 0, draw: 0 }
    const times = { calledAtUs: atMs * 1_000, answeredAtUs: (atMs + lastsMs) * 1_000, wallMs: 0 }
    const outcome = { answer: 'applied', ...more }
    entries.push({ ...id, process: `pod-${pod}`, pid: 100 + pod, op, ...times, ...outcome })
  }
  const winners = Array.from({ length: granted }, (_, index) => {
    const pod = index % PODS
    const section = 1 + Math.floor(index / PODS)
    const basis = Math.max(1, limit - index)
    const token = name === 'no lock' ? null : `${1_000 + index}`
    add(pod, 'give', index * 10, 8, {
      ...{ basis, value: basis - 1, tryNumber: section },
      ...(token !== null && { token }),
    })
    return { pod: `pod-${pod}`, section, basis, token }
  })
  if (name !== 'no lock') add(0, 'pause', 2, 800, { answer: 'over' })
  for (let pod = 0; pod < PODS; pod++) {
    add(pod, 'give', granted * 10, 5, { answer: 'over', basis: 0, tryNumber: 1_000 })
  }
  const arm = { name, protected: isProtected }
  return { arm, rounds: 1, size: limit, entries, finals: { remaining: 0, winners } }
}

const verdict = (record: TrialRecord): string => verdictOf(record.arm, 1, checkCampaign(record))

describe('campaign', () => {
  test('prizes are counted in the store’s book, and a second is measured by the pods', () => {
    // A pod that counts itself would count what it was told.
    const record = campaign('lock + guard', 40, 40)
    expect(checkCampaign(record)).toMatchObject({
      metrics: { granted: 40, limit: 40, refusedWrites: 0, pauses: 1, perSecond: 99 },
      ...{ rounds: 1, roundsTrue: 1, problems: [], breaches: [] },
    })
    expect(verdict(record)).toBe('holds')
  })

  test.each([
    ['no lock', 40, 41, 'holds'],
    ['no lock', 40, 40, 'void'],
    ['lock only', 40, 41, 'holds'],
    ['lock only', 40, 40, 'void'],
    ['lock + guard', 40, 41, 'broken'],
    ['lock + guard', 40, 39, 'broken'],
  ])('%s: of %i prizes %i are given out: %s', (name, limit, granted, expected) => {
    // The one prize too many is the whole point; a control that gives out the right number is none.
    const record = campaign(name, limit, granted)
    expect(checkCampaign(record).roundsTrue).toBe(expected === 'holds' ? 1 : 0)
    expect(verdict(record)).toBe(expected)
  })

  test('a winner whom the pod was told to be refused is a broken promise', () => {
    // The guard said no, and the write is there all the same.
    const record = campaign('lock + guard', 40, 40)
    const entries = record.entries.map((entry) =>
      entry.basis === 20 ? { ...entry, answer: 'refused' } : entry,
    )
    expect(checkCampaign({ ...record, entries }).breaches).toEqual([
      'pod-4/3 is in the book, but was answered "refused"',
    ])
    expect(verdict({ ...record, entries })).toBe('broken')
  })

  test('a winner whom a pod was promised and whom the book does not have breaks the arm', () => {
    // An acknowledged write is one that stays.
    const record = campaign('lock + guard', 40, 40)
    const winners = record.finals.winners.filter(({ basis }) => basis !== 20)
    expect(checkCampaign({ ...record, finals: { remaining: 0, winners } }).breaches).toContain(
      'pod-4/3 was answered "applied" and is not in the book',
    )
  })

  test('a winner whom nobody wrote down breaks the arm', () => {
    // A write that the store applied and no pod knows of.
    const record = campaign('lock + guard', 40, 40)
    const entries = record.entries.filter(({ basis }) => basis !== 20)
    expect(checkCampaign({ ...record, entries }).breaches).toEqual([
      'pod-4/3 is in the book, and nobody wrote it down',
    ])
    expect(verdict({ ...record, entries })).toBe('broken')
  })

  test('behind the guard one prize is never given out twice, whatever the sum says', () => {
    // Two that were computed from one reading and one that was left out add up as well.
    const record = campaign('lock + guard', 40, 40)
    const twice = <T extends { basis?: number }>(items: readonly T[]): T[] =>
      items.map((item) => (item.basis === 20 ? { ...item, basis: 21 } : item))
    const finals = { remaining: 0, winners: twice(record.finals.winners) }
    const changed = { ...record, entries: twice(record.entries), finals }
    expect(checkCampaign(changed).breaches).toEqual([
      'winner 21 was entered when 21 were left by its own reading',
    ])
    expect(verdict(changed)).toBe('broken')
  })

  test.each(['1018', '1019'])(
    'behind the guard a token after 1019 is larger, and not %s',
    (token) => {
      // That order is all that a guard is for, and one lease gives out one prize.
      const record = campaign('lock + guard', 40, 40)
      const old = <T extends { basis?: number }>(items: readonly T[]): T[] =>
        items.map((item) => (item.basis === 20 ? { ...item, token } : item))
      const finals = { remaining: 0, winners: old(record.finals.winners) }
      const { breaches } = checkCampaign({ ...record, entries: old(record.entries), finals })
      expect(breaches).toEqual([`winner 21 has token ${token} after 1019`])
    },
  )

  test.each<[string, (record: Made) => TrialRecord]>([
    [
      'seven pods',
      (record) => ({
        ...record,
        entries: record.entries.map((entry) => ({ ...entry, pid: Math.min(106, entry.pid) })),
      }),
    ],
    [
      'nobody who paused',
      (record) => ({ ...record, entries: record.entries.filter(({ op }) => op !== 'pause') }),
    ],
    [
      'a pause that was too short',
      (record) => ({
        ...record,
        entries: record.entries.map((entry) =>
          entry.op === 'pause' ? { ...entry, answeredAtUs: entry.calledAtUs + 400_000 } : entry,
        ),
      }),
    ],
    [
      'an operation that failed',
      (record) => ({
        ...record,
        entries: [
          ...record.entries,
          { ...(record.entries[0] as Entry), answer: 'failed', op: 'x' },
        ],
      }),
    ],
    [
      'prizes that are left',
      ({ finals, ...rest }) => ({ ...rest, finals: { ...finals, remaining: 1 } }),
    ],
    ['no book', (record) => ({ ...record, finals: undefined })],
  ])('a campaign with %s is void', (_what, change) => {
    // It is not the story that was to be told.
    expect(verdict(change(campaign('lock + guard', 40, 40)))).toBe('void')
  })

  test('a pause in the arm without a lock makes it void', () => {
    // There the race alone must be enough.
    const record = campaign('no lock', 40, 41)
    const [first] = record.entries
    const entries = [...record.entries, { ...(first as Entry), op: 'pause', answeredAtUs: 900_000 }]
    expect(verdict({ ...record, entries })).toBe('void')
  })
})
