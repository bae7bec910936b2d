/**
 * The checker of the job of ten TTLs: nobody else was granted the lock, the store names its owner
 * whenever it is asked, and the renewals are counted on the wire. Where there is none, those count
 * that the lab has seen: an entry that ends later than it did at the look before.
 */
import type { Entry } from '../../history.ts'
import type { ArmFindings } from '../../scenario.ts'
import type { TrialRecord } from '../../trial.ts'
import {
  answeredRequestsUs,
  byRound,
  failureIn,
  grantedFigures,
  grantedIn,
  isOnEtcd,
  keptAliveUs,
} from './rounds.ts'

/** Written down here, so that the checker does not ask those who play the story. */
const TTL_MS = 2_000
const JOB_TTLS = 10
const GAP_MS_MAX = 250
/** Somebody has to have asked, and the lab to have looked, often enough to have seen a gap. */
const ASKS_MIN = 10
/** Each is worth a third of the TTL of two seconds; a clock may count in steps of 10 ms. */
const RENEWED_MS_MIN = 100

interface Judged {
  readonly renewals: number
  readonly asks: number
  readonly grantedToOthers: number
  readonly isKept: boolean
  readonly wasRunning: boolean
}

export function checkLongJob({ arm, entries }: TrialRecord): ArmFindings {
  const problems: string[] = []
  const judged: Judged[] = []
  for (const [round, group] of byRound(entries)) {
    const one = judge(group, isOnEtcd(arm.name))
    if (typeof one === 'string') problems.push(`round ${round}: ${one}`)
    else judged.push(one)
  }
  const counted = judged.filter(({ wasRunning }) => wasRunning)
  const sum = (of: (one: Judged) => number): number =>
    counted.reduce((total, one) => total + of(one), 0)
  return {
    rounds: counted.length,
    roundsTrue: counted.filter(({ isKept }) => isKept).length,
    redrawn: judged.length - counted.length,
    metrics: {
      rounds: counted.length,
      renewals: sum(({ renewals }) => renewals),
      asks: sum(({ asks }) => asks),
      grantedToOthers: sum(({ grantedToOthers }) => grantedToOthers),
      ...grantedFigures(entries),
    },
    timings: {},
    problems,
    breaches: [],
  }
}

/** A text: why nothing can be said of this round. */
function judge(entries: readonly Entry[], isEtcd: boolean): Judged | string {
  const failure = failureIn(entries)
  if (failure !== null) return failure
  const [acquire, job, release] = ['acquire', 'job', 'release'].map((name) =>
    entries.find(({ op }) => op === name),
  )
  const end = entries.find(({ op }) => op === 'told' || op === 'not-told')
  if (acquire === undefined || job === undefined || release === undefined || end === undefined)
    return 'it is not complete'
  const grantedMs = isEtcd ? grantedIn(entries, TTL_MS) : TTL_MS
  if (typeof grantedMs === 'string') return grantedMs
  const lastedMs = (job.answeredAtUs - acquire.answeredAtUs) / 1_000
  if (lastedMs < JOB_TTLS * grantedMs) return `the job lasted ${lastedMs} ms only`
  const isWhileHeld = ({ calledAtUs, answeredAtUs }: Entry): boolean =>
    calledAtUs > acquire.answeredAtUs && answeredAtUs < release.calledAtUs
  const asked = entries.filter((entry) => entry.op === 'ask')
  const asks = asked.filter(isWhileHeld)
  const looks = entries.filter((entry) => entry.op === 'look' && isWhileHeld(entry))
  if (asks.length < ASKS_MIN || looks.length < ASKS_MIN) return 'too few asked, or looked'
  // Whoever is refused when the lock is free as well says nothing.
  const isFree = asked.some(
    (ask) => ask.answer === 'granted' && ask.calledAtUs > release.calledAtUs,
  )
  if (!isFree && release.answer === 'released') return 'nobody got the lock when it was given back'
  const grantedToOthers = asked.filter(
    (ask) => ask.answer === 'granted' && ask.answeredAtUs < release.calledAtUs,
  ).length
  const isOwners = ({ detail, value }: Entry): boolean =>
    acquire.owner !== undefined && (detail ?? '').includes(acquire.owner) && (value ?? 0) > 0
  return {
    renewals: isEtcd
      ? keptAliveUs(entries, release.calledAtUs).length
      : renewalsIn(entries, looks, release.calledAtUs),
    asks: asks.length,
    grantedToOthers,
    // The holder's own gap, and that of the lab, in which the proxy runs.
    wasRunning: Math.max(end.value ?? GAP_MS_MAX + 1, job.value ?? GAP_MS_MAX + 1) <= GAP_MS_MAX,
    isKept:
      grantedToOthers === 0 &&
      looks.every(isOwners) &&
      release.answer === 'released' &&
      !entries.some(({ op, calledAtUs }) => op === 'told' && calledAtUs < release.calledAtUs),
  }
}

function renewalsIn(
  entries: readonly Entry[],
  looks: readonly Entry[],
  releasedAtUs: number,
): number {
  const isOnWire = entries.some(({ op }) => op === 'request')
  // The first answered request is that which acquired it.
  if (isOnWire) return answeredRequestsUs(entries, releasedAtUs).length - 1
  const endsAtMs = looks.map(({ answeredAtUs, value }) => answeredAtUs / 1_000 + (value ?? 0))
  return endsAtMs.filter((atMs, index) => {
    const before = endsAtMs[index - 1]
    return before !== undefined && atMs - before > RENEWED_MS_MIN
  }).length
}
