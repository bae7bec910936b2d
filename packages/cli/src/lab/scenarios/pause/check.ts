/**
 * The checker of `pause`. What counts is worked out from three accounts that cannot agree by
 * mistake: the workers' entries, the log that a trigger in PostgreSQL kept, and the final balances.
 */
import { type Performance, performancesOf, timeProblems } from '../../checker.ts'
import type { Entry } from '../../history.ts'
import type { ArmFindings, ArmRecord } from '../../scenario.ts'
import type { WalletState } from './stores.ts'
import { type Expectation, readStory, type Story } from './story.ts'
import { type AppliedWrite, compareWithLog } from './wallet-log.ts'

/**
 * How long A's lease of 300 ms is valid by the rule that Holdfast publishes: TTL, less 1 % + 2 ms
 * for clock rates, less 50 ms. Written down here, so that the checker does not ask the code.
 */
const VALIDITY_MS = 245

const UNPROTECTED = { claims: false, lateWrite: 'applied', inAnyOrder: false } as const
const GUARDED = { takesLock: true, claims: true, inAnyOrder: true } as const

const EXPECTED: Readonly<Record<string, Expectation>> = {
  'no lock': { ...UNPROTECTED, takesLock: false },
  'lock only': { ...UNPROTECTED, takesLock: true },
  // Guards writes only: where B is late, A's write may still land between B's read and B's write.
  'lock + fence column': { ...UNPROTECTED, takesLock: true, lateWrite: 'refused' },
  'lock + guard': { ...GUARDED, lateWrite: 'refused' },
  'lock + lease': { ...GUARDED, lateWrite: 'lost' },
  'lock + guard, pause inside': { ...GUARDED, lateWrite: 'lost', claimWaitMsMax: VALIDITY_MS },
}

/** B has done everything before A's pause is over, and its write was applied. */
export function isPauseAsPlanned(entries: readonly Entry[]): boolean {
  const pause = entries.find(({ op }) => op === 'pause')
  const ofB = entries.filter(({ process }) => process === 'B')
  return (
    pause !== undefined &&
    ofB.some(({ op, answer }) => op === 'write' && answer === 'applied') &&
    ofB.every(({ answeredAtUs }) => answeredAtUs <= pause.answeredAtUs)
  )
}

/** One performance with all that the three accounts say of it. */
interface Judged {
  readonly performance: Performance
  readonly story: Story
  readonly lostUpdates: number
  /** By how much the balance has risen. */
  readonly gain: number
  readonly claimWaitMs: number
}

export function checkPause(record: ArmRecord): ArmFindings {
  const expected = EXPECTED[record.arm.name]
  if (expected === undefined) throw new Error(`nothing is expected of arm ${record.arm.name}`)
  const { performances, problems } = performancesOf(record, isPauseAsPlanned)
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
    toWhom.push(...account.untruths, ...lockProblems(entries, record.fault.ttlMs))
    const lane = judgeLane(ofLane, account.applied, expected)
    judged.push(...lane.judged)
    problems.push(...lane.problems)
  }
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

function isClaimTrue(one: Judged, isProtected: boolean, expected: Expectation): boolean {
  const { story, lostUpdates, gain, claimWaitMs } = one
  if (story.lateWrite?.answer !== expected.lateWrite) return false
  if (!isProtected) return lostUpdates === 1 && gain === 1 && story.tryCount === 2
  if (claimWaitMs > (expected.claimWaitMsMax ?? Number.POSITIVE_INFINITY)) return false
  return lostUpdates === 0 && gain === 2
}

/** Goes through one lane's performances in order, with the balance that stood before each. */
function judgeLane(
  performances: readonly Performance[],
  applied: readonly AppliedWrite[],
  expected: Expectation,
): { judged: Judged[]; problems: string[] } {
  const judged: Judged[] = []
  const problems: string[] = []
  const byPerformance = groupByPerformance(applied)
  let standing = 0
  for (const performance of performances) {
    const own = byPerformance.get(`${performance.round}/${performance.draw}`) ?? []
    const writes = own.filter(({ entry }) => entry.op === 'write')
    const story = readStory(performance, expected)
    problems.push(...story.problems, ...readProblems(performance, writes, standing))
    const end = writes.at(-1)?.row.newBalance ?? standing
    judged.push({
      performance,
      story,
      lostUpdates: writes.filter(({ entry, row }) => entry.basis !== row.oldBalance).length,
      gain: end - standing,
      claimWaitMs: longest(performance.entries, 'B', 'claim'),
    })
    standing = own.at(-1)?.row.newBalance ?? standing
  }
  return { judged, problems }
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

/**
 * A read must show a balance that stood there at some moment between its call and its answer. One
 * that was cut off with its transaction shows none.
 */
function readProblems(
  { round, entries }: Performance,
  writes: readonly AppliedWrite[],
  standing: number,
): string[] {
  const problems: string[] = []
  const states = [standing, ...writes.map(({ row }) => row.newBalance)]
  for (const read of entries.filter(({ op, answer }) => op === 'read' && answer === 'read')) {
    const first = writes.findLastIndex(({ entry }) => entry.answeredAtUs <= read.calledAtUs) + 1
    const last = writes.findLastIndex(({ entry }) => entry.calledAtUs <= read.answeredAtUs) + 1
    if (!states.slice(first, last + 1).includes(read.value ?? Number.NaN)) {
      problems.push(`round ${round}: ${read.process} read ${read.value}, which did not stand there`)
    }
  }
  return problems
}

/**
 * Tokens rise from grant to grant, and nobody is granted what A still holds: A's entry cannot have
 * run out sooner than one TTL after A asked for it.
 */
function lockProblems(entries: readonly Entry[], ttlMs: number): string[] {
  const problems: string[] = []
  // A release may have taken effect as soon as it was called; a grant is known at its answer.
  const timeOf = ({ op, calledAtUs, answeredAtUs }: Entry): number =>
    op === 'release' ? calledAtUs : answeredAtUs
  const steps = entries
    .filter(({ op, answer }) => (op === 'acquire' && answer === 'granted') || op === 'release')
    .sort((a, b) => timeOf(a) - timeOf(b))
  let latest: Entry | null = null
  let isReleased = true
  for (const step of steps) {
    if (step.op === 'release') {
      if (step.process === latest?.process) isReleased = true
      continue
    }
    const what = `round ${step.round}: ${step.process} was granted`
    if (latest !== null && BigInt(step.token ?? 0) <= BigInt(latest.token ?? 0)) {
      problems.push(`${what} token ${step.token} after ${latest.token}`)
    }
    if (latest !== null && !isReleased && step.answeredAtUs < latest.calledAtUs + ttlMs * 1_000) {
      problems.push(`${what} a lock that ${latest.process} still held`)
    }
    latest = step
    isReleased = false
  }
  return problems
}

function timingsOf(counted: readonly Judged[]): Record<string, number> {
  const timings: Record<string, number> = {}
  const afters = counted.flatMap(({ performance: { entries } }) => {
    const [a, b] = ['A', 'B'].map((role) =>
      entries.find(
        ({ op, process, answer }) => op === 'acquire' && process === role && answer === 'granted',
      ),
    )
    return a === undefined || b === undefined ? [] : [(b.answeredAtUs - a.calledAtUs) / 1_000]
  })
  if (afters.length > 0) timings['nextGrantAfterMsMax'] = tenths(Math.max(...afters))
  const waits = counted.map(({ claimWaitMs }) => claimWaitMs).filter((wait) => wait > 0)
  if (waits.length > 0) timings['nextClaimWaitMsMax'] = tenths(Math.max(...waits))
  return timings
}

function longest(entries: readonly Entry[], process: string, op: string): number {
  const durations = entries
    .filter((entry) => entry.process === process && entry.op === op)
    .map(({ calledAtUs, answeredAtUs }) => (answeredAtUs - calledAtUs) / 1_000)
  return Math.max(0, ...durations)
}

function tenths(ms: number): number {
  return Math.round(ms * 10) / 10
}

function sumOf<T>(items: readonly T[], of: (item: T) => number): number {
  return items.reduce((sum, item) => sum + of(item), 0)
}

function isWalletState(state: unknown): state is WalletState {
  return typeof state === 'object' && state !== null && 'balance' in state && 'log' in state
}
