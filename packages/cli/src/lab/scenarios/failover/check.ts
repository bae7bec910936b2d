/**
 * The checker of `failover`: whether somebody else led after each fault, in a later term, how long it took
 * until the new leader's first accepted write, and what became of the deposed one's late write.
 *
 * Figures decide nothing but by their bars; who was accepted does.
 */
import { type Bar, hundredths, medianBar, quantile } from '../../bars.ts'
import type { Entry } from '../../history.ts'
import type { ArmFindings } from '../../scenario.ts'
import type { TrialRecord } from '../../trial.ts'
import { checkMemberFaults, isMemberFault } from './check-members.ts'
import { type Row, storeBreaches, storeProblems } from './check-store.ts'

const FAULTS = ['kill', 'stop', 'resign'] as const
type Fault = (typeof FAULTS)[number]

/** A crash is noticed when the entry is over, at most one TTL after the last renewal, and a poll later. */
const CRASH_BAR_TTLS = 1.3

/** Written down here, so that the checker does not ask those who play the story. */
function expectedOf(arm: string): { faults: readonly Fault[]; ttlMs: number } {
  const seconds = /ttl (\d+) s$/.exec(arm)?.[1]
  if (seconds === undefined) throw new Error(`no such arm: ${arm}`)
  if (arm.startsWith('bare'))
    return { faults: [arm.includes('sqlite') ? 'resign' : 'stop'], ttlMs: 1000 * Number(seconds) }
  const faults = arm.startsWith('sqlite') ? (['kill', 'resign'] as const) : FAULTS
  return { faults, ttlMs: 1000 * Number(seconds) }
}

/** One fault and what followed. */
interface Succession {
  readonly fault: Fault
  readonly struck: Entry
  /** The first accepted write of a later term. */
  readonly next: Entry | null
  readonly tookMs: number
  /** What became of the late write; null: a dead process writes none. */
  readonly late: string | null
}

export function checkFailover(record: TrialRecord): ArmFindings {
  return isMemberFault(record.arm.name) ? checkMemberFaults(record) : checkLeaderFaults(record)
}

function checkLeaderFaults({ arm, rounds, entries, finals }: TrialRecord): ArmFindings {
  const { faults, ttlMs } = expectedOf(arm.name)
  const ends = entries.filter(({ op }) => op === 'round')
  const counted = ends.filter(({ answer }) => answer === 'counts').map(({ round }) => round)
  const rows = Array.isArray(finals) ? (finals as readonly Row[]) : []
  const problems = [...failures(entries), ...storeProblems(entries, finals)]
  const successions: Succession[] = []
  let roundsTrue = 0
  for (const round of counted.slice(0, rounds)) {
    const own = faults.map((fault) => successionOf(entries, round, fault))
    for (const one of own) if (typeof one === 'string') problems.push(`round ${round}: ${one}`)
    const met = own.filter((one) => typeof one !== 'string')
    successions.push(...met)
    if (met.length === faults.length && met.every((one) => isTrue(one, arm.protected)))
      roundsTrue += 1
  }
  const granted = arm.name.startsWith('etcd') ? grantedTo(entries, ttlMs, problems) : null
  const late = successions.map((one) => one.late).filter((answer) => answer !== null)
  return {
    rounds: Math.min(counted.length, rounds),
    roundsTrue,
    redrawn: ends.length - counted.length,
    metrics: {
      ...(granted !== null && { grantedTtlMs: granted }),
      ...Object.fromEntries(faults.flatMap((fault) => figuresOf(successions, fault))),
      ...{ lateWrites: late.length, refusedLate: late.filter(isRefusal).length },
    },
    timings: {},
    bars: faults.flatMap((fault) => barOf(successions, fault, granted ?? ttlMs)),
    problems,
    breaches: arm.protected ? storeBreaches(rows) : [],
  }
}

/** etcd counts in whole seconds and has a least TTL of its own: more than was asked for, never less. */
function grantedTo(entries: readonly Entry[], ttlMs: number, problems: string[]): number {
  const granted = entries.filter(({ op }) => op === 'granted').map(({ value = 0 }) => value)
  const [least = 0, most = 0] = [Math.min(...granted), Math.max(...granted)]
  if (granted.length === 0) problems.push('nobody looked at what the store granted')
  else if (least < ttlMs)
    problems.push(`the store granted ${least} ms where ${ttlMs} were asked for`)
  return granted.length === 0 ? ttlMs : most
}

const isRefusal = (answer: string): boolean => answer === 'STALE_TOKEN'

/** Where nobody looks at tokens the claim is that the late write goes through. */
function isTrue({ next, late }: Succession, isProtected: boolean): boolean {
  if (next === null) return false
  if (!isProtected) return late === 'accepted'
  return late === null || isRefusal(late)
}

/** What happened, or why nothing can be said about it. */
function successionOf(entries: readonly Entry[], round: number, fault: Fault): Succession | string {
  const struck = entries.filter((entry) => {
    return entry.op === fault && entry.round === round && entry.process === 'lab'
  })
  const [first] = struck
  if (first === undefined || struck.length > 1) return `${struck.length} times ${fault}`
  const token = BigInt(first.token ?? '0')
  const own = entries.filter((entry) => entry.token === first.token)
  const led = own.find(({ op, answer }) => op === 'write' && answer === 'accepted')
  if (led === undefined || led.answeredAtUs > first.calledAtUs) return `${fault} met nobody who led`
  const next = firstAfter(entries, token)
  // A resignation begins when the leader says so, not when the lab asks it to.
  const resigned = own.find(({ op, process }) => op === 'resign' && process !== 'lab')
  if (fault === 'resign' && resigned === undefined) return 'the leader never resigned'
  const fromUs = fault === 'resign' ? (resigned?.calledAtUs ?? 0) : first.calledAtUs
  const late = own.find(({ op }) => op === 'late')
  if (fault !== 'kill' && late === undefined) return `no late write after ${fault}`
  if (next !== null && late !== undefined && late.calledAtUs < next.answeredAtUs) {
    return 'the deposed leader wrote before the new one had claimed'
  }
  const wake = own.find(({ op }) => op === 'wake')
  if (fault === 'stop' && (wake === undefined || (late && late.answeredAtUs < wake.calledAtUs))) {
    return 'the leader was not stopped when it should be'
  }
  const tookMs = next === null ? Number.NaN : (next.answeredAtUs - fromUs) / 1000
  return { fault, struck: first, next, tookMs, late: late?.answer ?? null }
}

function firstAfter(entries: readonly Entry[], token: bigint): Entry | null {
  const later = entries.filter(({ op, answer, token: term }) => {
    return op === 'write' && answer === 'accepted' && BigInt(term ?? '0') > token
  })
  later.sort((a, b) => a.answeredAtUs - b.answeredAtUs)
  return later[0] ?? null
}

function timesOf(successions: readonly Succession[], fault: Fault): number[] {
  return successions
    .filter((one) => one.fault === fault && one.next !== null)
    .map(({ tookMs }) => tookMs)
}

const NAMES: Readonly<Record<Fault, string>> = {
  ...{ kill: 'killed', stop: 'stopped', resign: 'resigned' },
}

function figuresOf(successions: readonly Succession[], fault: Fault): [string, number][] {
  const times = timesOf(successions, fault)
  return [
    [`${NAMES[fault]}P50Ms`, hundredths(quantile(times, 0.5))],
    [`${NAMES[fault]}MaxMs`, hundredths(Math.max(0, ...times))],
  ]
}

function barOf(successions: readonly Succession[], fault: Fault, ttlMs: number): Bar[] {
  if (fault === 'resign') return []
  const what = `leader ${NAMES[fault]}: p50 until the next one's first write, in TTLs`
  const bar = medianBar(what, CRASH_BAR_TTLS, timesOf(successions, fault), [ttlMs])
  return bar === null ? [] : [bar]
}

/** Whoever wrote was accepted or refused; what came to nothing says nothing. */
function failures(entries: readonly Entry[]): string[] {
  const isTold = ({ op, answer }: Entry): boolean =>
    op === 'late' ? answer === 'accepted' || isRefusal(answer) : answer !== 'failed'
  return entries
    .filter((entry) => !isTold(entry))
    .map(({ op, process, answer, detail = '' }) => `${op} of ${process}: ${answer} ${detail}`)
}
