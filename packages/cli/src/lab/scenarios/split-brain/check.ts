/**
 * The checker of `split-brain`: whether a holder that was cut off was told before anybody else could
 * be granted its lock, and what became of its late write.
 *
 * Nobody can be granted a lock while an entry of the holder stands on a node that is needed for it.
 * The lab has looked at those nodes itself; the last look that found an entry on the last of them is
 * what the holder's knowledge is compared with.
 */
import type { Entry } from '../../history.ts'
import type { ArmFindings } from '../../scenario.ts'
import type { TrialRecord } from '../../trial.ts'
import { isWalletState } from '../wallet/judge.ts'
import { compareWithLog } from '../wallet/log.ts'
import { byRound, failureIn } from '../watchdog/rounds.ts'
import { checkAsking, leakIn } from './check-asking.ts'

/** Written down here, so that the checker does not ask those who play the story. */
const GAP_MS_MAX = 250
/** Nodes beyond the partition, all of which are needed there. */
const NEEDED: Readonly<Record<string, number>> = {
  'one redis, cut off': 1,
  'redlock of 3, cut off': 2,
  'etcd of 3, cut off': 1,
}

interface Judged {
  readonly marginMs: number
  /** Of what came after the partition began, in milliseconds after it. */
  readonly afterMs: Readonly<{ failed: number | null; told: number | null; granted: number }>
  readonly isTold: boolean
  readonly isHeldByTwo: boolean
  readonly isRefused: boolean
  readonly isRising: boolean
}

/** A round of processes that were not served for too long, of which nothing can be said. */
const NOT_RUNNING = Symbol('not running')

export function checkSplitBrain(record: TrialRecord): ArmFindings {
  const needed = NEEDED[record.arm.name]
  return needed === undefined ? checkAsking(record) : checkCutOff(record, needed)
}

function checkCutOff({ arm, entries, finals }: TrialRecord, needed: number): ArmFindings {
  const problems: string[] = []
  const breaches: string[] = []
  const counted: Judged[] = []
  let redrawn = 0
  const rows: readonly unknown[] = Array.isArray(finals) ? finals : []
  for (const [round, group] of byRound(entries)) {
    const one = judge(group, needed)
    const state = rows[round]
    if (one === NOT_RUNNING) redrawn += 1
    else if (typeof one === 'string') problems.push(`round ${round}: ${one}`)
    else if (!isWalletState(state)) problems.push(`round ${round}: the row could not be read`)
    else {
      counted.push(one)
      const writes = group.filter(({ op }) => op === 'write')
      const account = compareWithLog(`round ${round}`, writes, state)
      problems.push(...account.problems)
      ;(arm.protected ? breaches : problems).push(...account.untruths)
    }
  }
  const margins = counted.filter(({ isTold }) => isTold).map(({ marginMs }) => marginMs)
  const count = (isSo: (one: Judged) => boolean): number => counted.filter(isSo).length
  return {
    rounds: counted.length,
    roundsTrue: count((one) => isClaimTrue(one, arm.protected)),
    redrawn,
    metrics: {
      toldBefore: count(({ isTold, marginMs }) => isTold && marginMs > 0),
      ...(margins.length > 0 && { worstMarginMs: Math.round(Math.min(...margins)) }),
      heldByTwo: count(({ isHeldByTwo }) => isHeldByTwo),
      refusedLate: count(({ isRefused }) => isRefused),
    },
    timings: timingsOf(counted),
    problems,
    breaches,
  }
}

/** How long until who was cut off saw the first failure and was told, and the next one was granted it. */
function timingsOf(counted: readonly Judged[]): Record<string, number> {
  if (counted.length === 0) return {}
  const failed = counted.flatMap(({ afterMs }) => afterMs.failed ?? [])
  const told = counted.flatMap(({ afterMs }) => afterMs.told ?? [])
  return {
    ...(failed.length > 0 && { failureAfterMsMax: Math.round(Math.max(...failed)) }),
    ...(told.length > 0 && { toldAfterMsMax: Math.round(Math.max(...told)) }),
    grantedAfterMsMin: Math.round(Math.min(...counted.map(({ afterMs }) => afterMs.granted))),
  }
}

/** With protection: told in time, never two, refused. Without: two hold it, and the late write stands. */
function isClaimTrue(one: Judged, isProtected: boolean): boolean {
  const { isTold, marginMs, isHeldByTwo, isRefused, isRising } = one
  if (isProtected) return isTold && marginMs > 0 && !isHeldByTwo && isRefused && isRising
  return isHeldByTwo && !isRefused
}

/** A text: why nothing can be said of this round. */
function judge(entries: readonly Entry[], needed: number): Judged | string | typeof NOT_RUNNING {
  const failure = failureIn(entries)
  if (failure !== null) return failure
  const grantTo = (process: string): Entry | undefined =>
    entries.find((entry) => entry.process === process && entry.op === 'acquire')
  const [a, b] = [grantTo('A'), grantTo('B')]
  const cut = entries.find(({ op }) => op === 'cut')
  const ends = entries.filter(({ op }) => op === 'told' || op === 'not-told')
  const gone = entries.filter(({ op }) => op === 'gone')
  const [end] = ends
  if (a === undefined || b === undefined || cut === undefined) return 'it is not complete'
  if (end === undefined || ends.length > 1) return `the holder came to ${ends.length} ends`
  // Before anything else: such a holder may lose its lease without any partition.
  if (ends.concat(gone).some(({ value }) => (value ?? Number.POSITIVE_INFINITY) > GAP_MS_MAX)) {
    return NOT_RUNNING
  }
  const leak = leakIn(entries)
  if (leak !== null) return leak
  if (end.calledAtUs < cut.answeredAtUs) return `${end.op} before the partition: ${end.answer}`
  if (gone.length !== needed || new Set(gone.map(({ detail }) => detail)).size !== needed) {
    return `the entries of the holder were seen to go on ${gone.length} of ${needed} nodes`
  }
  if (gone.some(({ owner }) => owner !== a.owner)) return 'the entries were not those of the holder'
  if (a.token === undefined || b.token === undefined) return 'a token is missing'
  const late = lateWrite(entries, b)
  if (typeof late === 'string') return late
  const freeAtUs = Math.max(...gone.map(({ calledAtUs }) => calledAtUs))
  if (b.answeredAtUs < freeAtUs) return 'somebody was granted it while it stood there'
  const isTold = end.op === 'told'
  const failed = entries.find(
    ({ op, calledAtUs }) => op === 'renewal-failed' && calledAtUs > cut.calledAtUs,
  )
  const since = (timeUs: number): number => (timeUs - cut.answeredAtUs) / 1_000
  return {
    afterMs: {
      failed: failed === undefined ? null : since(failed.calledAtUs),
      told: isTold ? since(end.calledAtUs) : null,
      granted: since(b.answeredAtUs),
    },
    marginMs: (freeAtUs - end.calledAtUs) / 1_000,
    isTold,
    isHeldByTwo: b.answeredAtUs < end.calledAtUs,
    isRefused: late.answer === 'refused',
    isRising: BigInt(b.token) > BigInt(a.token),
  }
}

/** Of the old holder, when the new one has written. A text: why it is none. */
function lateWrite(entries: readonly Entry[], grant: Entry): Entry | string {
  const writes = entries.filter(({ op }) => op === 'write')
  const [next, late] = writes
  const told = writes.map(({ process, value }) => `${process}${value}`).join()
  if (next === undefined || late === undefined || told !== 'B2,A3') return `the writes are: ${told}`
  if (next.answer !== 'applied') return 'the new holder could not write'
  if (next.calledAtUs < grant.answeredAtUs) return 'the new holder wrote before it was one'
  if (late.calledAtUs < next.answeredAtUs) return 'the late write was not late'
  return late
}
