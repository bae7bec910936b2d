/**
 * The checker of `withdraw`. What is left in each wallet is the store's own word; which withdrawal
 * was lost follows from its log and from what the workers wrote down.
 */
import { nextGrantTimings, tenths } from '../../checker.ts'
import type { Entry } from '../../history.ts'
import type { ArmFindings, ArmRecord } from '../../scenario.ts'
import { isDoneInPause, sumOf } from '../wallet/judge.ts'
import { type JudgedWallet, judgeOwnWallets } from '../wallet/judge-own.ts'
import type { Expectation } from '../wallet/story.ts'
import { CHANGES, LEFT_OVER, OPENED_WITH } from './amounts.ts'

interface WithdrawExpectation extends Expectation {
  /** What becomes of the write that A makes after its pause; null where it does not pause. */
  readonly lateWrite: string | null
}

/** As long as a lock lives; written down here, so that the checker does not ask the code. */
const TTL_MS = 300

const PLAIN = { takesLock: false, claims: false, reads: true, pauses: true, changes: CHANGES }
const GUARDED = { ...PLAIN, takesLock: true, claims: true }

const EXPECTED: Readonly<Record<string, WithdrawExpectation>> = {
  'no lock': { ...PLAIN, pauses: false, lateWrite: null },
  'no lock, one statement': { ...PLAIN, reads: false, lateWrite: 'applied' },
  'lock, nobody pauses': { ...PLAIN, takesLock: true, pauses: false, lateWrite: null },
  'lock, A pauses': { ...PLAIN, takesLock: true, lateWrite: 'applied' },
  'lock + guard, A pauses': { ...GUARDED, lateWrite: 'refused' },
  'lock + lease, A pauses': { ...GUARDED, lateWrite: 'lost' },
}

function expectedOf(arm: string): WithdrawExpectation {
  const expected = EXPECTED[arm]
  if (expected === undefined) throw new Error(`nothing is expected of arm ${arm}`)
  return expected
}

/** With a pause: B was done before it was over. Without: both at once, or nobody too slow. */
export function isWithdrawAsPlanned(entries: readonly Entry[]): boolean {
  const [first] = entries
  if (first === undefined) return false
  const { pauses, takesLock } = expectedOf(first.arm)
  if (pauses) return isDoneInPause(entries)
  return takesLock ? entries.every((entry) => isInTime(entry, entries)) : haveBothRead(entries)
}

/** Neither has written before the other has read. */
function haveBothRead(entries: readonly Entry[]): boolean {
  const reads = entries.filter(({ op }) => op === 'read')
  const lastReadUs = Math.max(...reads.map(({ answeredAtUs }) => answeredAtUs))
  return (
    reads.length === 2 &&
    entries.every(({ op, calledAtUs }) => op !== 'write' || calledAtUs >= lastReadUs)
  )
}

/** A write under a lock that certainly was not over yet; a slow machine can be too slow for that. */
function isInTime({ op, process, tryNumber, answeredAtUs }: Entry, all: readonly Entry[]): boolean {
  if (op !== 'write') return true
  const lock = all.find(
    (entry) => entry.op === 'acquire' && entry.process === process && entry.tryNumber === tryNumber,
  )
  return lock !== undefined && answeredAtUs < lock.calledAtUs + TTL_MS * 1_000
}

export function checkWithdraw(record: ArmRecord): ArmFindings {
  const expected = expectedOf(record.arm.name)
  const { judged, counted, redrawn, problems, breaches } = judgeOwnWallets(record, {
    expected,
    openedWith: OPENED_WITH,
    ttlMsOf: () => record.fault.ttlMs,
    isAsPlanned: isWithdrawAsPlanned,
  })
  // The lock alone promises nothing for a machine that was too slow; everything else does.
  const promisesAnyway = record.arm.protected && (expected.claims || !expected.takesLock)
  const lostAnyway = judged.filter(
    ({ performance, lostUpdates }) => !performance.isAsPlanned && lostUpdates > 0,
  )
  const further = promisesAnyway
    ? lostAnyway.map(({ performance: { round } }) => `round ${round}, drawn again, lost an update`)
    : []
  return {
    rounds: counted.length,
    roundsTrue: counted.filter((one) => isClaimTrue(one, record.arm.protected, expected)).length,
    redrawn,
    metrics: {
      lostUpdates: sumOf(counted, ({ lostUpdates }) => lostUpdates),
      // What is left in one wallet, on average: each round has a wallet of its own.
      finalBalance: meanOf(counted.map(({ finalBalance }) => finalBalance)),
      expectedBalance: LEFT_OVER,
    },
    timings: expected.pauses ? nextGrantTimings(counted.map(({ performance }) => performance)) : {},
    problems,
    breaches: [...breaches, ...further],
  }
}

function isClaimTrue(
  { story, lostUpdates, finalBalance }: JudgedWallet,
  isProtected: boolean,
  { lateWrite }: WithdrawExpectation,
): boolean {
  if (lateWrite !== null && story.lateWrite?.answer !== lateWrite) return false
  if (isProtected) return lostUpdates === 0 && finalBalance === LEFT_OVER
  // One of both is as if it had never been.
  const left = [OPENED_WITH + CHANGES.A, OPENED_WITH + CHANGES.B]
  return lostUpdates === 1 && left.includes(finalBalance)
}

function meanOf(balances: readonly number[]): number {
  if (balances.length === 0) return 0
  return tenths(sumOf(balances, (balance) => balance) / balances.length)
}
