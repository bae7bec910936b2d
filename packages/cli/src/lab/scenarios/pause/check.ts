/**
 * The checker of `pause`. What counts is worked out from three accounts that cannot agree by
 * mistake: the workers' entries, the log that a trigger in the store kept, and the final balances.
 *
 * One arm comes to something else without a server. Who pauses inside of a transaction keeps the
 * file's write lock, and nobody else ends that: B cannot be done in A's pause, and its wait is over
 * only when the pause is.
 */
import {
  nextGrantTimings,
  type Performance,
  performancesOf,
  tenths,
  timeProblems,
} from '../../checker.ts'
import type { Entry } from '../../history.ts'
import type { ArmFindings, ArmRecord } from '../../scenario.ts'
import type { GroundKind } from '../ground/ground.ts'
import {
  isDoneInPause,
  isWalletState,
  type Judged,
  judge,
  lockProblems,
  sumOf,
} from '../wallet/judge.ts'
import { type AppliedWrite, compareWithLog } from '../wallet/log.ts'
import type { Expectation } from '../wallet/story.ts'

/**
 * How long A's lease of 300 ms is valid by the rule that Holdfast publishes: TTL, less 1 % + 2 ms
 * for clock rates, less 50 ms. Written down here, so that the checker does not ask the code.
 */
const VALIDITY_MS = 245

const PAUSE_INSIDE = 'lock + guard, pause inside'

/** What an arm's programs do, and what must come of it. */
interface PauseExpectation extends Expectation {
  /** What becomes of the write that A makes after its pause. */
  readonly lateWrite: string
  /** True: no update is lost either in rounds that did not go as planned. */
  readonly inAnyOrder: boolean
  /** What goes as planned: B was done in A's pause, where nothing else is said. */
  isAsPlanned(entries: readonly Entry[]): boolean
  /** Whether B waited for its claims no longer than it may. */
  isClaimInTime(performance: Performance): boolean
}

const ALL = {
  ...{ reads: true, pauses: true, changes: { A: 1, B: 1 } },
  ...{ isAsPlanned: isDoneInPause, isClaimInTime: () => true },
} as const
const UNPROTECTED = { ...ALL, claims: false, lateWrite: 'applied', inAnyOrder: false } as const
const GUARDED = { ...ALL, takesLock: true, claims: true, inAnyOrder: true } as const

const EXPECTED: Readonly<Record<string, PauseExpectation>> = {
  'no lock': { ...UNPROTECTED, takesLock: false },
  'lock only': { ...UNPROTECTED, takesLock: true },
  // Guards writes only: where B is late, A's write may still land between B's read and B's write.
  'lock + fence column': { ...UNPROTECTED, takesLock: true, lateWrite: 'refused' },
  'lock + guard': { ...GUARDED, lateWrite: 'refused' },
  'lock + lease': { ...GUARDED, lateWrite: 'lost' },
  [PAUSE_INSIDE]: {
    ...{ ...GUARDED, lateWrite: 'lost' },
    isClaimInTime: (performance) => claimWaitMs(performance) <= VALIDITY_MS,
  },
}

const EXPECTED_EMBEDDED: Readonly<Record<string, PauseExpectation>> = {
  ...EXPECTED,
  [PAUSE_INSIDE]: {
    ...{ ...GUARDED, lateWrite: 'lost' },
    isAsPlanned: hasClaimedInPause,
    isClaimInTime: isAnsweredAfterPause,
  },
}

function expectedOf(arm: string, kind: GroundKind): PauseExpectation {
  const expected = (kind === 'embedded' ? EXPECTED_EMBEDDED : EXPECTED)[arm]
  if (expected === undefined) throw new Error(`nothing is expected of arm ${arm}`)
  return expected
}

export function isPauseAsPlanned(entries: readonly Entry[], kind: GroundKind): boolean {
  const [first] = entries
  return first !== undefined && expectedOf(first.arm, kind).isAsPlanned(entries)
}

export function checkPause(record: ArmRecord, kind: GroundKind = 'servers'): ArmFindings {
  const expected = expectedOf(record.arm.name, kind)
  const { performances, problems } = performancesOf(record, expected.isAsPlanned)
  for (const performance of performances) {
    problems.push(...timeProblems(performance, record.fault))
  }
  const breaches: string[] = []
  const judged: Judged[] = []
  let finalBalance = 0
  for (const { place, state } of record.finals) {
    const ofLane = performances.filter(({ lane }) => lane === place.lane)
    if (!isWalletState(state)) {
      problems.push(`${place.name}: the store's final state could not be read`)
      continue
    }
    finalBalance += state.balance
    const entries = record.entries.filter(({ lane }) => lane === place.lane)
    const writes = entries.filter(({ op }) => op === 'write' || op === 'undo')
    const account = compareWithLog(place.name, writes, state)
    problems.push(...account.problems)
    // Where nothing protects, nobody is told anything that could be untrue: then the record is bad.
    const toWhom = record.arm.protected ? breaches : problems
    toWhom.push(...account.untruths, ...lockProblems(entries, () => record.fault.ttlMs))
    judged.push(...judgeLane(ofLane, account.applied, expected))
  }
  problems.push(...judged.flatMap((one) => one.problems))
  const counted = judged.filter(({ performance }) => performance.isAsPlanned)
  for (const { performance, lostUpdates } of judged) {
    if (performance.isAsPlanned || lostUpdates === 0 || !expected.inAnyOrder) continue
    breaches.push(`round ${performance.round}, drawn again, lost an update`)
  }
  return {
    rounds: counted.length,
    roundsTrue: counted.filter((one) => isClaimTrue(one, record.arm.protected, expected)).length,
    redrawn: performances.length - performances.filter(({ isAsPlanned }) => isAsPlanned).length,
    metrics: {
      lostUpdates: sumOf(counted, ({ lostUpdates }) => lostUpdates),
      refusedWrites: counted.filter(({ story }) => story.lateWrite?.answer === 'refused').length,
      stoppedByHolder: counted.filter(({ story }) => story.lateWrite?.answer === 'lost').length,
      finalBalance,
      expectedBalance: 2 * counted.length,
    },
    timings: timingsOf(counted),
    problems,
    breaches,
  }
}

function isClaimTrue(one: Judged, isProtected: boolean, expected: PauseExpectation): boolean {
  const { story, lostUpdates, gain } = one
  if (story.lateWrite?.answer !== expected.lateWrite) return false
  if (!isProtected) return lostUpdates === 1 && gain === 1 && story.tryCount === 2
  if (!expected.isClaimInTime(one.performance)) return false
  return lostUpdates === 0 && gain === 2
}

/** Goes through one lane's performances in order, with the balance that stood before each. */
function judgeLane(
  performances: readonly Performance[],
  applied: readonly AppliedWrite[],
  expected: Expectation,
): Judged[] {
  const byPerformance = groupByPerformance(applied)
  let standing = 0
  return performances.map((performance) => {
    const own = byPerformance.get(`${performance.round}/${performance.draw}`) ?? []
    const writes = own.filter(({ entry }) => entry.op === 'write')
    const judged = judge(performance, writes, standing, expected)
    standing = own.at(-1)?.row.newBalance ?? standing
    return judged
  })
}

function groupByPerformance(applied: readonly AppliedWrite[]): Map<string, AppliedWrite[]> {
  const groups = new Map<string, AppliedWrite[]>()
  for (const one of applied) {
    const key = `${one.entry.round}/${one.entry.draw}`
    const group = groups.get(key)
    if (group === undefined) groups.set(key, [one])
    else group.push(one)
  }
  return groups
}

function timingsOf(counted: readonly Judged[]): Record<string, number> {
  const timings = nextGrantTimings(counted.map(({ performance }) => performance))
  const waits = counted
    .map(({ performance }) => claimWaitMs(performance))
    .filter((wait) => wait > 0)
  if (waits.length > 0) timings['nextClaimWaitMsMax'] = tenths(Math.max(...waits))
  return timings
}

/** How long B waited for its claim, at most if it claimed several times. */
function claimWaitMs({ entries }: Performance): number {
  const durations = claimsOfB(entries).map(
    ({ calledAtUs, answeredAtUs }) => (answeredAtUs - calledAtUs) / 1_000,
  )
  return Math.max(0, ...durations)
}

function claimsOfB(entries: readonly Entry[]): readonly Entry[] {
  return entries.filter(({ process, op }) => process === 'B' && op === 'claim')
}

/** B asked while A stood in its transaction, and has done its work since. */
function hasClaimedInPause(entries: readonly Entry[]): boolean {
  const pause = entries.find(({ op }) => op === 'pause')
  return (
    pause !== undefined &&
    claimsOfB(entries).some(({ calledAtUs }) => calledAtUs < pause.answeredAtUs) &&
    entries.some(
      ({ process, op, answer }) => process === 'B' && op === 'write' && answer === 'applied',
    )
  )
}

/** Whom the pause kept waiting has its answer when the pause and one validity are over. */
function isAnsweredAfterPause({ entries }: Performance): boolean {
  const pause = entries.find(({ op }) => op === 'pause')
  if (pause === undefined) return false
  return claimsOfB(entries)
    .filter(({ calledAtUs }) => calledAtUs < pause.answeredAtUs)
    .every(({ answeredAtUs }) => answeredAtUs <= pause.answeredAtUs + VALIDITY_MS * 1_000)
}
