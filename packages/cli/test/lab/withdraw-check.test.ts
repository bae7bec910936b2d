import { describe, expect, test } from 'vitest'
import { verdictOf } from '../../src/lab/checker.ts'
import type { ArmRecord } from '../../src/lab/scenario.ts'
import { checkWithdraw } from '../../src/lab/scenarios/withdraw/check.ts'
import {
  type MadeUpWallet,
  redrawnRecord,
  type Try,
  type Wallets,
  walletRecord,
  walletRound,
  withEntries,
  withStore,
} from './fixtures/made-up-wallets.ts'

const verdict = (record: ArmRecord): string =>
  verdictOf(record.arm, record.rounds, checkWithdraw(record))

const A = { process: 'A', change: -500 } as const
const B = { process: 'B', change: -300 } as const

/** What happens in a round of each arm when it goes as it should. */
const STORIES: Readonly<Record<string, { isProtected: boolean; tries: readonly Try[] }>> = {
  'no lock': {
    isProtected: false,
    tries: [
      { ...A, readMs: 0, writeMs: 10, basis: 1_000, answer: 'applied' },
      { ...B, readMs: 1, writeMs: 13, basis: 1_000, answer: 'applied' },
    ],
  },
  'no lock, one statement': {
    isProtected: true,
    tries: [
      { ...A, pauseMs: [0, 510], writeMs: 511, basis: 700, answer: 'applied' },
      { ...B, writeMs: 300, basis: 1_000, answer: 'applied' },
    ],
  },
  'lock, nobody pauses': {
    isProtected: true,
    tries: [
      { ...locked(A, '10', 0), basis: 1_000, answer: 'applied' },
      { ...locked(B, '11', 20), basis: 500, answer: 'applied' },
    ],
  },
  'lock, A pauses': {
    isProtected: false,
    tries: [
      { ...locked(A, '10', 0, 520), basis: 1_000, answer: 'applied' },
      { ...locked(B, '11', 310), basis: 1_000, answer: 'applied' },
    ],
  },
  'lock + guard, A pauses': { isProtected: true, tries: guarded('refused') },
  'lock + lease, A pauses': { isProtected: true, tries: guarded('lost') },
}

function locked(
  who: typeof A | typeof B,
  token: string,
  atMs: number,
  wakesMs?: number,
): Omit<Try, 'basis' | 'answer'> {
  const writeMs = wakesMs === undefined ? atMs + 9 : wakesMs + 1
  return {
    ...who,
    ...{ token, acquireMs: atMs, readMs: atMs + 6, writeMs, releaseMs: writeMs + 3 },
    ...(wakesMs === undefined ? {} : { pauseMs: [atMs + 8, wakesMs] }),
  }
}

function guarded(lateWrite: string): Try[] {
  return [
    { ...locked(A, '10', 0, 520), claimMs: 3, basis: 1_000, answer: lateWrite },
    { ...locked(B, '11', 310), claimMs: 313, basis: 1_000, answer: 'applied' },
    { ...locked(A, '12', 530), claimMs: 533, tryNumber: 2, basis: 700, answer: 'applied' },
  ]
}

function rounds(arm: string, count: number): MadeUpWallet[] {
  const tries = STORIES[arm]?.tries ?? []
  return Array.from({ length: count }, (_, round) => walletRound(arm, round, 1_000, tries))
}

function recordOf(arm: string, count: number): ArmRecord & { wallets: Wallets } {
  const isProtected = STORIES[arm]?.isProtected === true
  return walletRecord({ name: arm, protected: isProtected }, rounds(arm, count))
}

describe('figures', () => {
  test.each(Object.keys(STORIES))('%s: the figures follow from the history', (arm) => {
    // 1000 - 500 - 300 is 200; where one writes over the other, 500 or 700.
    const findings = checkWithdraw(recordOf(arm, 3))
    const isProtected = STORIES[arm]?.isProtected === true
    expect(findings).toMatchObject({ rounds: 3, roundsTrue: 3, problems: [], breaches: [] })
    expect(findings.metrics).toEqual({
      lostUpdates: isProtected ? 0 : 3,
      finalBalance: isProtected ? 200 : arm === 'no lock' ? 700 : 500,
      expectedBalance: 200,
    })
    expect(verdict(recordOf(arm, 3))).toBe('holds')
  })
})

describe('verdicts', () => {
  test('a guard that lets the late withdrawal through is broken', () => {
    // The customer has 800, and the wallet says that 500 are left.
    const arm = 'lock + guard, A pauses'
    const tries = guarded('applied').slice(0, 2)
    const record = walletRecord({ name: arm, protected: true }, [
      ...rounds(arm, 2),
      walletRound(arm, 2, 1_000, tries),
    ])
    expect(checkWithdraw(record)).toMatchObject({
      ...{ rounds: 3, roundsTrue: 2, problems: [] },
      metrics: { lostUpdates: 1, finalBalance: 300, expectedBalance: 200 },
    })
    expect(verdict(record)).toBe('broken')
  })

  test('a control in which both withdrawals count is void', () => {
    // A had its lock, and read, only when B was done: nothing was written over.
    const arm = 'lock, A pauses'
    const tries: Try[] = [
      { ...locked(A, '12', 330, 860), basis: 700, answer: 'applied' },
      { ...locked(B, '11', 310), basis: 1_000, answer: 'applied' },
    ]
    const record = walletRecord({ name: arm, protected: false }, [
      walletRound(arm, 0, 1_000, tries),
    ])
    expect(checkWithdraw(record)).toMatchObject({ rounds: 1, roundsTrue: 0, problems: [] })
    expect(verdict(record)).toBe('void')
  })

  test('a store that does not compute itself breaks the arm of one statement', () => {
    // Read, computed and written in one call, but not in one step.
    const arm = 'no lock, one statement'
    const tries: Try[] = [
      { ...A, pauseMs: [0, 510], writeMs: 511, basis: 1_000, answer: 'applied' },
      { ...B, writeMs: 300, basis: 1_000, answer: 'applied' },
    ]
    const record = walletRecord({ name: arm, protected: true }, [walletRound(arm, 0, 1_000, tries)])
    expect(checkWithdraw(record).metrics).toMatchObject({ lostUpdates: 1, finalBalance: 500 })
    expect(verdict(record)).toBe('broken')
  })

  test('losses that make up for each other are losses', () => {
    // Two wrong balances whose average is right.
    const arm = 'no lock, one statement'
    const half = (round: number, lost: number): MadeUpWallet => {
      const made = walletRound(arm, round, 1_000, STORIES[arm]?.tries ?? [])
      const [b, a] = made.state.log
      if (a === undefined || b === undefined) throw new Error('two writes were made up')
      const log = [b, { ...a, newBalance: a.newBalance + lost }]
      return { ...made, state: { balance: 200 + lost, log } }
    }
    const record = walletRecord({ name: arm, protected: true }, [half(0, 100), half(1, -100)])
    expect(checkWithdraw(record).metrics).toMatchObject({ finalBalance: 200 })
    expect(verdict(record)).not.toBe('holds')
  })
})

describe('a lost update that nobody reports', () => {
  const arm = 'lock + guard, A pauses'

  test('is seen in the log when a write that was called refused took effect', () => {
    // A guard that says no and writes all the same.
    const [late, b, again] = guarded('refused')
    if (late === undefined || b === undefined || again === undefined) throw new Error('no story')
    const told = walletRound(arm, 0, 1_000, [late, b, { ...again, basis: 500 }])
    const [first] = told.state.log
    if (first === undefined) throw new Error('B has written')
    const log = [
      first,
      { writer: 'A', oldBalance: 700, newBalance: 500 },
      { writer: 'A', oldBalance: 500, newBalance: 0 },
    ]
    const made = { ...told, state: { balance: 0, log } }
    const record = walletRecord({ name: arm, protected: true }, [made])
    expect(checkWithdraw(record).breaches.join()).toContain('answered "refused"')
    expect(verdict(record)).toBe('broken')
  })

  test('is seen when an acknowledged write is not in the store', () => {
    // The worker was told "applied"; the wallet never heard of it.
    const record = withStore(recordOf(arm, 1), (wallets) =>
      changeFirst(wallets, ({ log: [b] }) => ({ balance: 700, log: [b] })),
    )
    expect(checkWithdraw(record).breaches.join()).toContain('the store never had it')
    expect(verdict(record)).toBe('broken')
  })

  test('cannot hide behind a read that was made to fit', () => {
    // A basis that the store did not have between the read's call and its answer.
    const record = withEntries(recordOf('lock, nobody pauses', 1), (entry) => {
      if (entry.process !== 'B' || entry.op === 'acquire') return entry
      if (entry.op === 'read') return { ...entry, value: 900 }
      return entry.op === 'write' ? { ...entry, basis: 900, value: 600 } : entry
    })
    expect(checkWithdraw(record).problems.length).toBeGreaterThan(0)
    expect(verdict(record)).toBe('void')
  })
})

describe('records that do not fit together', () => {
  const arm = 'lock + guard, A pauses'

  test.each([
    ['a wallet that is not there', (): Wallets => ({})],
    [
      'a wallet on which no round worked',
      (wallets: Wallets): Wallets => ({ ...wallets, stray: { balance: 1, log: [] } }),
    ],
    [
      'a wallet that was opened with less',
      (wallets: Wallets): Wallets =>
        changeFirst(wallets, ({ log: [b, a] }) => ({
          balance: 200,
          log: [{ ...b, oldBalance: 900 }, a],
        })),
    ],
  ])('%s is rejected', (_name, change) => {
    // Then a round may have been left out of the sum.
    const record = withStore(recordOf(arm, 1), change)
    expect(checkWithdraw(record).problems.length).toBeGreaterThan(0)
    expect(verdict(record)).not.toBe('holds')
  })

  test.each(['acquire', 'claim', 'read', 'write', 'release', 'pause'])(
    'a missing %s of A is found',
    (op) => {
      // What nobody wrote down may be what broke the claim.
      let isGone = false
      const record = withEntries(recordOf(arm, 1), (entry) => {
        if (isGone || entry.process !== 'A' || entry.op !== op) return entry
        isGone = true
        return null
      })
      expect(isGone).toBe(true)
      expect(verdict(record)).toBe('void')
    },
  )

  test('a pause in an arm without one is found', () => {
    // It would be another experiment under the same name.
    const made = walletRound('no lock', 0, 1_000, [
      { ...A, readMs: 0, pauseMs: [3, 520], writeMs: 521, basis: 1_000, answer: 'applied' },
      { ...B, readMs: 1, writeMs: 300, basis: 1_000, answer: 'applied' },
    ])
    const record = walletRecord({ name: 'no lock', protected: false }, [made])
    expect(checkWithdraw(record).problems).toContain('round 0: somebody paused')
  })

  test('rounds that were not as planned do not count', () => {
    // One wrote before the other had read: not at once. And a lock that may have been over.
    const early = walletRound('no lock', 0, 1_000, [
      { ...A, readMs: 0, writeMs: 3, basis: 1_000, answer: 'applied' },
      { ...B, readMs: 10, writeMs: 13, basis: 500, answer: 'applied' },
    ])
    expect(checkWithdraw(walletRecord({ name: 'no lock', protected: false }, [early])).rounds).toBe(
      0,
    )
    const slow = walletRound('lock, nobody pauses', 0, 1_000, [
      { ...locked(A, '10', 0), writeMs: 299, releaseMs: 302, basis: 1_000, answer: 'applied' },
      { ...locked(B, '11', 310), basis: 500, answer: 'applied' },
    ])
    const record = walletRecord({ name: 'lock, nobody pauses', protected: true }, [slow])
    expect(checkWithdraw(record).rounds).toBe(0)
  })
})

describe('rounds that are drawn again', () => {
  test('an update that a guard lost in one of them breaks its arm', () => {
    // A guard that fails only when B is late would otherwise be drawn again until it looks right.
    const arm = { name: 'lock + guard, A pauses', protected: true }
    const [a, b] = guarded('applied')
    if (a === undefined || b === undefined) throw new Error('no story')
    const record = redrawnRecord(arm, 1_000, [a, { ...b, releaseMs: 530 }], guarded('refused'))
    expect(checkWithdraw(record)).toMatchObject({
      ...{ rounds: 1, roundsTrue: 1, redrawn: 1, problems: [] },
      breaches: ['round 0, drawn again, lost an update'],
    })
    expect(verdict(record)).toBe('broken')
  })

  test('a lock alone promises nothing for a machine that was too slow', () => {
    // A wrote when its lock may have been over, and B had read before.
    const name = 'lock, nobody pauses'
    const slow: Try[] = [
      { ...locked(A, '10', 0), writeMs: 330, releaseMs: 333, basis: 1_000, answer: 'applied' },
      { ...locked(B, '11', 310), basis: 1_000, answer: 'applied' },
    ]
    const record = redrawnRecord({ name, protected: true }, 1_000, slow, [
      ...(STORIES[name]?.tries ?? []),
    ])
    expect(checkWithdraw(record)).toMatchObject({ redrawn: 1, problems: [], breaches: [] })
    expect(verdict(record)).toBe('holds')
  })
})

function changeFirst(
  wallets: Wallets,
  change: (state: { balance: number; log: LoggedPair }) => { balance: number; log: object[] },
): Wallets {
  const [name = '', state] = Object.entries(wallets)[0] ?? []
  const changed = change(state as unknown as { balance: number; log: LoggedPair })
  return { ...wallets, [name]: changed as unknown as Wallets[string] }
}

type Logged = Wallets[string]['log'][number]
type LoggedPair = readonly [Logged, Logged]
