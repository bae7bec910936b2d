import { describe, expect, test } from 'vitest'
import { verdictOf } from '../../src/lab/checker.ts'
import type { Entry } from '../../src/lab/history.ts'
import type { ArmRecord } from '../../src/lab/scenario.ts'
import { checkLateWrite } from '../../src/lab/scenarios/late-write/check.ts'
import {
  redrawnRecord,
  type Try,
  type Wallets,
  walletRecord,
  walletRound,
  withEntries,
  withStore,
} from './fixtures/made-up-wallets.ts'

const verdict = (record: ArmRecord): string =>
  verdictOf(record.arm, record.rounds, checkLateWrite(record))

const WRITE_ONLY = { name: 'write-only guard', protected: false } as const
const CLAIMED = [
  { name: 'claim and read together', protected: true },
  { name: 'claim, then read', protected: true },
  { name: 'guard.update, read, guard.update', protected: true },
] as const

/** A's late write falls between B's read and B's write; what it is answered decides the rest. */
function story(lateWrite: 'applied' | 'refused' | 'lost', claims: boolean): Try[] {
  const claim = (ms: number): { claimMs?: number } => (claims ? { claimMs: ms } : {})
  const a = { process: 'A', change: 1 } as const
  const late: Try[] = [
    {
      ...{ ...a, token: '10', acquireMs: 0, ...claim(3), readMs: 6, pauseMs: [9, 520] },
      ...{ writeMs: 521, releaseMs: 524, basis: 0, answer: lateWrite },
    },
    {
      ...{ process: 'B', change: 1, token: '11', acquireMs: 310, ...claim(313), readMs: 316 },
      ...{ writeMs: 530, releaseMs: 533, basis: 0, answer: 'applied' },
    },
  ]
  if (lateWrite === 'applied') return late
  const again: Try = {
    ...{ ...a, tryNumber: 2, token: '12', acquireMs: 540, ...claim(543), readMs: 546 },
    ...{ writeMs: 549, releaseMs: 552, basis: 1, answer: 'applied' },
  }
  return [...late, again]
}

function recordOf(
  arm: { readonly name: string; readonly protected: boolean },
  ...stories: Try[][]
): ArmRecord & { wallets: Wallets } {
  return walletRecord(
    arm,
    stories.map((tries, round) => walletRound(arm.name, round, 0, tries)),
  )
}

describe('figures', () => {
  test.each([WRITE_ONLY, { name: 'guard.update after a read', protected: false }])(
    '$name: two updates are acknowledged and one is lost',
    (arm) => {
      // Every token was right, and nobody got an error.
      const record = recordOf(arm, story('applied', false), story('applied', false))
      expect(checkLateWrite(record)).toMatchObject({
        ...{ rounds: 2, roundsTrue: 2, problems: [], breaches: [] },
        metrics: { acknowledged: 4, lost: 2, refusedWrites: 0 },
      })
      expect(verdict(record)).toBe('holds')
    },
  )

  test.each(CLAIMED)('$name: the late write is refused and nothing is lost', (arm) => {
    // Claimed before the read, the larger token is at the row when the late write comes.
    const record = recordOf(arm, story('refused', true), story('refused', true))
    expect(checkLateWrite(record)).toMatchObject({
      ...{ rounds: 2, roundsTrue: 2, problems: [], breaches: [] },
      metrics: { acknowledged: 4, lost: 0, refusedWrites: 2 },
    })
    expect(verdict(record)).toBe('holds')
  })
})

describe('verdicts', () => {
  test('one lost update breaks the arm that claims first', () => {
    // A claim that does nothing: the history is the one of a guard on writes alone.
    const record = recordOf(CLAIMED[0], story('refused', true), story('applied', true))
    expect(checkLateWrite(record)).toMatchObject({
      ...{ rounds: 2, roundsTrue: 1, problems: [] },
      metrics: { acknowledged: 4, lost: 1, refusedWrites: 1 },
    })
    expect(verdict(record)).toBe('broken')
  })

  test('an arm in which the holder stops itself says nothing of its guard, and is broken', () => {
    // Nothing is lost either, but the late write never met the claim.
    const record = recordOf(CLAIMED[0], story('lost', true))
    expect(checkLateWrite(record)).toMatchObject({ rounds: 1, roundsTrue: 0 })
    expect(verdict(record)).toBe('broken')
  })

  test('a lost update in a round that is drawn again breaks the arm that claims first', () => {
    // A guard that fails only out of order would otherwise be drawn again until it looks right.
    const [a, b] = story('applied', true)
    if (a === undefined || b === undefined) throw new Error('no story')
    const early = [a, { ...b, writeMs: 400, releaseMs: 403 }]
    const record = redrawnRecord(CLAIMED[0], 0, early, story('refused', true))
    expect(checkLateWrite(record)).toMatchObject({
      ...{ rounds: 1, roundsTrue: 1, redrawn: 1, problems: [] },
      breaches: ['round 0, drawn again, lost an update'],
    })
    expect(verdict(record)).toBe('broken')
  })

  test('a control whose guard refuses the late write is void', () => {
    // Then the write was not late, or the control is no control.
    expect(verdict(recordOf(WRITE_ONLY, story('refused', false)))).toBe('void')
  })
})

describe('a lost update that nobody reports', () => {
  test('is found where A is told "refused" and the store has applied it', () => {
    // The program believes that nothing was written, and does it once more.
    const record = withStore(recordOf(CLAIMED[0], story('refused', true)), (wallets) =>
      Object.fromEntries(
        Object.entries(wallets).map(
          ([
            name,
            {
              balance,
              log: [b, a],
            },
          ]) => {
            if (a === undefined || b === undefined) throw new Error('two writes were made up')
            const late = { writer: 'A', oldBalance: 0, newBalance: 1 }
            return [name, { balance, log: [late, { ...b, oldBalance: 1 }, a] }]
          },
        ),
      ),
    )
    expect(checkLateWrite(record).breaches.join()).toContain('answered "refused"')
    expect(verdict(record)).toBe('broken')
  })

  test('is found where the store has forgotten an acknowledged one', () => {
    // Balance and log agree with each other, and not with what A was told.
    const record = withStore(recordOf(CLAIMED[1], story('refused', true)), (wallets) =>
      Object.fromEntries(
        Object.entries(wallets).map(([name, { log }]) => [
          name,
          { balance: 1, log: log.slice(0, 1) },
        ]),
      ),
    )
    expect(verdict(record)).toBe('broken')
  })

  test('is found where B says that it wrote over what it did not read', () => {
    // The log shows a balance that B's write was not computed from; a changed basis hides it.
    const record = withEntries(recordOf(CLAIMED[0], story('applied', true)), (entry) =>
      entry.process === 'B' && entry.op === 'write' ? { ...entry, basis: 1, value: 1 } : entry,
    )
    expect(checkLateWrite(record).problems.length).toBeGreaterThan(0)
    expect(verdict(record)).toBe('void')
  })
})

describe('the order that the experiment is about', () => {
  const moved = (process: string, op: string, toMs: number): ArmRecord =>
    withEntries(recordOf(WRITE_ONLY, story('applied', false)), (entry) =>
      entry.process === process && entry.op === op
        ? { ...entry, calledAtUs: toMs * 1_000, answeredAtUs: toMs * 1_000 + 1_000 }
        : entry,
    )

  test.each([
    ['B read after the late write', 'B', 'read', 525],
    ['B wrote before the late write', 'B', 'write', 400],
  ])('a round in which %s does not count', (_what, process, op, toMs) => {
    // Then it shows what `pause` shows, or nothing.
    expect(checkLateWrite(moved(process, op, toMs)).rounds).toBe(0)
  })

  test('a lock that B was granted while A’s TTL still ran is found', () => {
    // Two holders without any late write.
    expect(checkLateWrite(moved('B', 'acquire', 200)).problems.join()).toContain('still held')
  })

  test('a lock that A was granted while B still held it is found', () => {
    // B's lock lives for ten seconds, not for A's 300 ms.
    const later = (entry: Entry, byMs: number): Entry => ({
      ...entry,
      calledAtUs: entry.calledAtUs + byMs * 1_000,
      answeredAtUs: entry.answeredAtUs + byMs * 1_000,
    })
    const record = withEntries(recordOf(CLAIMED[0], story('refused', true)), (entry) => {
      if (entry.process === 'A') return entry.tryNumber === 2 ? later(entry, 3_000) : entry
      return entry.op === 'release' ? later(entry, 4_000) : entry
    })
    expect(checkLateWrite(record).breaches.join()).toContain('a lock that B still held')
  })
})
