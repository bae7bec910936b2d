/** The judge of scenarios in which each performance has a wallet of its own; see own-wallets.ts. */
import { type Performance, performancesOf, timeProblems } from '../../checker.ts'
import type { DrawId, Entry } from '../../history.ts'
import type { ArmRecord } from '../../scenario.ts'
import { isWalletState, type Judged, judge, lockProblems } from './judge.ts'
import { compareWithLog } from './log.ts'
import type { WalletState } from './stores.ts'
import type { Expectation } from './story.ts'

export function walletNameOf({ round, draw }: DrawId, place: string): string {
  return `${place}/${round}/${draw}`
}

/** What must be told of an arm to judge it. */
export interface OwnWalletsArm {
  readonly expected: Expectation
  readonly openedWith: number
  /** How long the lock lives that the process asked for. */
  ttlMsOf(process: string): number
  isAsPlanned(entries: readonly Entry[]): boolean
}

export interface JudgedWallet extends Judged {
  readonly finalBalance: number
}

export interface JudgedArm {
  readonly judged: readonly JudgedWallet[]
  /** Those that went as planned. */
  readonly counted: readonly JudgedWallet[]
  readonly redrawn: number
  readonly problems: readonly string[]
  readonly breaches: readonly string[]
}

export function judgeOwnWallets(record: ArmRecord, arm: OwnWalletsArm): JudgedArm {
  const { performances, problems } = performancesOf(record, arm.isAsPlanned)
  const breaches: string[] = []
  const judged: JudgedWallet[] = []
  const unclaimed = new Map<string, unknown>()
  for (const { place, state } of record.finals) {
    if (typeof state !== 'object' || state === null) {
      problems.push(`${place.name}: the store's final state could not be read`)
    } else for (const [wallet, one] of Object.entries(state)) unclaimed.set(wallet, one)
  }
  for (const performance of performances) {
    problems.push(...timeProblems(performance, arm.expected.pauses ? record.fault : null))
    const place = record.finals.find(({ place: { lane } }) => lane === performance.lane)?.place
    const wallet = walletNameOf({ arm: record.arm.name, ...performance }, place?.name ?? '')
    const state = unclaimed.get(wallet)
    unclaimed.delete(wallet)
    if (!isWalletState(state)) {
      problems.push(`round ${performance.round}: the store has no wallet ${wallet}`)
      continue
    }
    const one = judgeWallet(performance, wallet, state, arm)
    judged.push(one.judged)
    problems.push(...one.problems)
    // Where nothing protects, nobody is told anything that could be untrue: then the record is bad.
    ;(record.arm.protected ? breaches : problems).push(...one.untruths)
  }
  for (const wallet of unclaimed.keys()) problems.push(`${wallet}: no round worked on it`)
  const counted = judged.filter(({ performance }) => performance.isAsPlanned)
  return { judged, counted, redrawn: performances.length - counted.length, problems, breaches }
}

function judgeWallet(
  performance: Performance,
  wallet: string,
  state: WalletState,
  { expected, openedWith, ttlMsOf }: OwnWalletsArm,
): { judged: JudgedWallet; problems: string[]; untruths: string[] } {
  const { entries } = performance
  const writes = entries.filter(({ op }) => op === 'write')
  const account = compareWithLog(wallet, writes, state, openedWith)
  const judged = judge(performance, account.applied, openedWith, expected)
  return {
    judged: { ...judged, finalBalance: state.balance },
    problems: [...account.problems, ...judged.problems],
    untruths: [...account.untruths, ...lockProblems(entries, ttlMsOf)],
  }
}
