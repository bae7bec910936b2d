/**
 * The checker of `watchdog`: how long before the end of its TTL each holder was told.
 *
 * The TTL is counted on the lab's own clock, from the last request of the lock that the store was seen to
 * answer, at the moment at which the proxy had it in hand: the store cannot have seen it earlier, so the
 * lock cannot run out earlier. On etcd that is a keep-alive of the session that the lock is on, and the
 * TTL is the one that etcd granted. Where the store is a file, whoever took its write lock from the
 * holders has read under that lock how long each entry lives yet, and that counts. What the holder
 * believes of its lease is not asked.
 */
import type { Entry } from '../../history.ts'
import type { ArmFindings } from '../../scenario.ts'
import type { TrialRecord } from '../../trial.ts'
import { checkBlocked } from './check-blocked.ts'
import { checkLongJob } from './check-long-job.ts'
import {
  answeredRequestsUs,
  byRound,
  failureIn,
  grantedFigures,
  grantedIn,
  isOnEtcd,
  keptAliveUs,
  kindOf,
} from './rounds.ts'

/** Written down here, so that the checker does not ask those who play the story. */
const TTL_MS = 3_000
const GAP_MS_MAX = 250
/** A reply that the proxy saw after these faults began did not reach the holder in time. */
const CUT_AT_ONCE = ['silent', 'slow', 'renewed by hand, silent']

export function checkWatchdog(record: TrialRecord): ArmFindings {
  const kind = kindOf(record.arm.name)
  if (kind === 'long job') return checkLongJob(record)
  if (kind === 'blocked loop') return checkBlocked(record)
  return checkFailingStore(record)
}

interface Judged {
  readonly round: number
  /** How long before the end of the TTL; a holder that was never told has the time it was watched. */
  readonly marginMs: number
  readonly isTold: boolean
  /** Somebody else was granted the lock, and the holder did not know. */
  readonly isHeldByTwo: boolean
  readonly wasRunning: boolean
}

function checkFailingStore({ arm, entries }: TrialRecord): ArmFindings {
  const problems: string[] = []
  const judged: Judged[] = []
  for (const [round, group] of byRound(entries)) {
    const one = judge(round, group, arm.name)
    if (typeof one === 'string') problems.push(`round ${round}: ${one}`)
    else judged.push(one)
  }
  const counted = judged.filter(({ wasRunning }) => wasRunning)
  const isToldInTime = ({ isTold, marginMs }: Judged): boolean => isTold && marginMs > 0
  const told = counted.filter(isToldInTime).length
  const heldByTwo = counted.filter((one) => one.isHeldByTwo).length
  const margins = counted.map(({ marginMs }) => marginMs)
  return {
    rounds: counted.length,
    roundsTrue: counted.filter((one) =>
      arm.protected ? isToldInTime(one) && !one.isHeldByTwo : !isToldInTime(one) && one.isHeldByTwo,
    ).length,
    redrawn: judged.length - counted.length,
    metrics: {
      toldBeforeTtl: told,
      rounds: counted.length,
      ...(margins.length > 0 && { worstMarginMs: Math.round(Math.min(...margins)) }),
      heldByTwo,
      ...grantedFigures(entries),
    },
    timings: {},
    problems,
    breaches: [],
  }
}

/** A text: why nothing can be said of this round. */
function judge(round: number, entries: readonly Entry[], armName: string): Judged | string {
  const failure = failureIn(entries)
  if (failure !== null) return failure
  const fault = entries.find(({ op }) => op === 'fault')
  const ends = entries.filter(({ op }) => op === 'told' || op === 'not-told')
  const [end] = ends
  if (fault === undefined || end === undefined || ends.length > 1) return 'it is not complete'
  if (!entries.some(({ op, answer }) => op === 'acquire' && answer === 'granted')) {
    return 'nobody was granted the lock'
  }
  const isCutAtOnce = CUT_AT_ONCE.includes(kindOf(armName))
  const cutAtUs = isCutAtOnce ? fault.calledAtUs : Number.POSITIVE_INFINITY
  if (entries.some(({ op, answer }) => op === 'try' && answer !== 'unusable')) {
    return 'the store was not gone: it could be read'
  }
  const other = entries.find(({ op, answer }) => op === 'other' && answer === 'granted')
  const endsAtUs = isOnEtcd(armName)
    ? endOfPlaceUs(entries, cutAtUs, other)
    : endOfLifeUs(entries, cutAtUs)
  if (typeof endsAtUs === 'string') return endsAtUs
  const wasRunning = (end.value ?? Number.POSITIVE_INFINITY) <= GAP_MS_MAX
  if (end.calledAtUs < fault.calledAtUs && wasRunning) {
    return `${end.op} before the fault: ${end.answer}`
  }
  const isTold = end.op === 'told'
  if (!isTold && end.calledAtUs < endsAtUs) return 'it was not watched to the end of its TTL'
  // Whoever was granted it may have had it since it asked; the store has answered since.
  if (other !== undefined && other.answeredAtUs < endsAtUs) {
    return 'somebody else was granted it before its TTL was over'
  }
  return {
    round,
    marginMs: (endsAtUs - end.calledAtUs) / 1_000,
    isTold,
    isHeldByTwo: other !== undefined && other.calledAtUs < end.calledAtUs,
    wasRunning,
  }
}

/**
 * When the session ends at the earliest that the lock is on, or when somebody else had the lock before: a
 * holder whose own count is over gives its place up by itself. A text: why that is not known.
 */
function endOfPlaceUs(
  entries: readonly Entry[],
  cutAtUs: number,
  other: Entry | undefined,
): number | string {
  const grantedMs = grantedIn(entries, TTL_MS)
  if (typeof grantedMs === 'string') return grantedMs
  const keptAtUs = keptAliveUs(entries, cutAtUs).at(-1)
  if (keptAtUs === undefined) return 'no keep-alive of its session was answered'
  return Math.min(keptAtUs + grantedMs * 1_000, other?.calledAtUs ?? Number.POSITIVE_INFINITY)
}

/** When the TTL ends that the store knows of. A text: why that is not known. */
function endOfLifeUs(entries: readonly Entry[], cutAtUs: number): number | string {
  const seen = entries.find(({ op }) => op === 'entry')
  if (seen === undefined) {
    const renewedAtUs = answeredRequestsUs(entries, cutAtUs).at(-1)
    if (renewedAtUs === undefined) return 'no request about the lock was answered'
    return renewedAtUs + TTL_MS * 1_000
  }
  const acquire = entries.find(({ op }) => op === 'acquire')
  const isHolders = acquire?.owner !== undefined && seen.detail === acquire.owner
  if (seen.answer !== 'held' || !isHolders) return 'the file did not name the holder'
  return seen.calledAtUs + (seen.value ?? 0) * 1_000
}
