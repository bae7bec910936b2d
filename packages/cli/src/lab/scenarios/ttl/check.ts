/**
 * The checker of `ttl`: whose pause outlasted its lock, what became of the write behind it, and how long a
 * crash of the holder kept everybody waiting.
 *
 * A pause outlasted the lock when the next holder had read the row before the write behind the pause began:
 * two were at work on it. What that did to the row the store itself says, by the log of its trigger.
 */
import { type Bar, hundredths, medianBar, quantile } from '../../bars.ts'
import type { Entry } from '../../history.ts'
import type { ArmFindings } from '../../scenario.ts'
import type { TrialRecord } from '../../trial.ts'
import { isWalletState, lockProblems } from '../wallet/judge.ts'
import { compareWithLog } from '../wallet/log.ts'
import { byRound, failureIn } from '../watchdog/rounds.ts'

/** A crash is noticed when the entry is over, at most one TTL after the last renewal, and a poll later. */
const CRASH_BAR_TTLS = 1.3
/** Waits end on whole milliseconds and may be rounded down. */
const PAUSE_GRAIN_MS = 2
/** On a busy machine a holder may have lost its lock before it is killed; of so many more nothing is known. */
const MET_SHARE_MIN = 0.5

interface Expectation {
  readonly ttlMs: number
  readonly isBare: boolean
}

/** Written down here, so that the checker does not ask those who play the story. */
function expectedOf(arm: string): Expectation {
  const [, kind, figure, unit] = /, (lock only|lock \+ guard), ttl (\d+) (ms|s)$/.exec(arm) ?? []
  if (kind === undefined) throw new Error(`no such arm: ${arm}`)
  return { ttlMs: Number(figure) * (unit === 's' ? 1_000 : 1), isBare: kind === 'lock only' }
}

/** One holder that stood still. */
interface Paused {
  /** `between`: the next one read while the write behind the pause was on its way. */
  readonly order: 'overlap' | 'between' | 'apart'
  readonly late: string
  readonly next: string
  readonly lostUpdates: number
  readonly pausedMs: number
}

/** One holder that was killed. `missed`: somebody else was granted its lock before. */
type Crashed = { readonly tookMs: number | null } | 'missed'

export function checkTtl({ arm, rounds, entries, finals }: TrialRecord): ArmFindings {
  const expected = expectedOf(arm.name)
  const problems: string[] = []
  const breaches: string[] = []
  const paused: Paused[] = []
  const crashed: Crashed[] = []
  const rows: readonly unknown[] = Array.isArray(finals) ? finals : []
  const groups = byRound(entries)
  for (let round = 0; round < 2 * rounds; round++) {
    const group = groups.get(round) ?? []
    const say = (what: string): unknown => problems.push(`round ${round}: ${what}`)
    const row = accountOf(round, group, rows[round])
    problems.push(...row.problems)
    // Where nothing protects, nobody is told anything that could be untrue: then the record is bad.
    const untrue = [...row.untruths, ...lockProblems(group, livesMsIn(group, arm.name, expected))]
    ;(arm.protected ? breaches : problems).push(...untrue)
    const one = round < rounds ? pausedOf(group, row, expected) : crashedOf(group)
    if (typeof one === 'string' && one !== 'missed') say(one)
    else if (round < rounds) paused.push(one as Paused)
    else crashed.push(one as Crashed)
  }
  const overlaps = paused.filter(({ order }) => order === 'overlap')
  if (overlaps.length === 0) problems.push('no pause outlasted the lock')
  const met = crashed.filter((one) => one !== 'missed')
  if (met.length < MET_SHARE_MIN * rounds)
    problems.push(`${met.length} of ${rounds} crashes met a holder`)
  const granted = arm.name.startsWith('etcd') ? grantedIn(entries, expected.ttlMs, problems) : null
  const times = met.flatMap(({ tookMs }) => tookMs ?? [])
  if (times.length < met.length) {
    breaches.push(`after ${met.length - times.length} crashes nobody else could write`)
  }
  return {
    rounds: paused.length,
    roundsTrue: paused.filter((one) => isTrue(one, expected)).length,
    redrawn: 0,
    metrics: {
      ttlMs: expected.ttlMs,
      ...(granted !== null && { grantedTtlMs: granted }),
      recoveryP50Ms: hundredths(quantile(times, 0.5)),
      recoveryMaxMs: hundredths(Math.max(0, ...times)),
      pauses: paused.length,
      overlaps: overlaps.length,
      lostUpdates: paused.reduce((sum, { lostUpdates }) => sum + lostUpdates, 0),
      refused: paused.filter(({ late }) => late === 'refused').length,
    },
    timings: { longestPauseMs: Math.round(Math.max(0, ...paused.map(({ pausedMs }) => pausedMs))) },
    bars: barOf(times, granted ?? expected.ttlMs),
    problems,
    breaches,
  }
}

/**
 * How long a lock lives at least from when it was asked for. On etcd it stands on a session that began
 * before it: there the holder's own word counts, and nobody else may be granted it sooner.
 */
function livesMsIn(
  group: readonly Entry[],
  arm: string,
  { ttlMs }: Expectation,
): (process: string) => number {
  if (!arm.startsWith('etcd')) return () => ttlMs
  const grants = group.filter(({ op, answer }) => op === 'acquire' && answer === 'granted')
  return (process) => grants.find((entry) => entry.process === process)?.value ?? ttlMs
}

/** Two at work on one row: with a lock only one update is lost, with the guard the late one is refused. */
function isTrue({ order, late, next, lostUpdates }: Paused, { isBare }: Expectation): boolean {
  if (next !== 'applied') return false
  if (isBare) {
    if (order === 'overlap') return late === 'applied' && lostUpdates === 1
    return order === 'between' || lostUpdates === 0
  }
  if (lostUpdates > 0) return false
  if (order === 'between') return true
  return late === (order === 'overlap' ? 'refused' : 'applied')
}

interface Account {
  readonly problems: readonly string[]
  readonly untruths: readonly string[]
  /** Writes over a balance that is not the one that they were computed from. */
  readonly lostUpdates: number
}

function accountOf(round: number, group: readonly Entry[], state: unknown): Account {
  if (!isWalletState(state)) {
    return { problems: [`round ${round}: the row could not be read`], untruths: [], lostUpdates: 0 }
  }
  const writes = group.filter(({ op }) => op === 'write')
  const account = compareWithLog(`round ${round}`, writes, state)
  const lost = account.applied.filter(({ entry, row }) => entry.basis !== row.oldBalance)
  return { ...account, lostUpdates: lost.length }
}

/** A text: why nothing can be said of it. */
function pausedOf(
  group: readonly Entry[],
  { lostUpdates }: Account,
  { isBare }: Expectation,
): Paused | string {
  const failure = failureIn(group)
  if (failure !== null) return failure
  const ofB = group.filter(({ process }) => process === 'B')
  const ofA = group.filter(({ process }) => process !== 'B')
  const steps = isBare ? ['read', 'write', 'release'] : ['claim', 'read', 'write', 'release']
  const told = [...new Set(ofA.map(({ process }) => process))]
  if (told.length !== 1) return `${told.length} processes held it first`
  const withPause = steps.flatMap((op) => (op === 'read' ? [op, 'pause'] : [op]))
  for (const [process, own, wanted] of [
    ['A', ofA, withPause],
    ['B', ofB, steps],
  ] as const) {
    const grant = own.findIndex(({ answer }) => answer === 'granted')
    const ops = own.slice(grant).map(({ op }) => op)
    if (grant < 0 || ops.join() !== ['acquire', ...wanted].join()) {
      return `${process} did: ${own.map(({ op, answer }) => `${op} ${answer}`).join(', ')}`
    }
    const isMixed = own.some(({ calledAtUs }, at) => calledAtUs < (own[at - 1]?.answeredAtUs ?? 0))
    if (isMixed) return `${process} did two things at once`
  }
  const at = (own: readonly Entry[], op: string): Entry =>
    own.find((entry) => entry.op === op) as Entry
  const [pause, late, read, next] = [
    ...[at(ofA, 'pause'), at(ofA, 'write'), at(ofB, 'read'), at(ofB, 'write')],
  ] as [Entry, Entry, Entry, Entry]
  const pausedMs = (pause.answeredAtUs - pause.calledAtUs) / 1_000
  if (!(pausedMs >= (pause.value ?? Number.POSITIVE_INFINITY) - PAUSE_GRAIN_MS)) {
    return `its pause lasted ${pausedMs} ms of ${pause.value}`
  }
  const isBefore = read.answeredAtUs < late.calledAtUs
  const isAfter = late.answeredAtUs < read.calledAtUs
  const order = isBefore ? 'overlap' : isAfter ? 'apart' : 'between'
  return { order, late: late.answer, next: next.answer, lostUpdates, pausedMs }
}

function crashedOf(group: readonly Entry[]): Crashed | string {
  const failure = failureIn(group)
  if (failure !== null) return failure
  const kills = group.filter(({ op }) => op === 'kill')
  const grants = group.filter(({ op, answer }) => op === 'acquire' && answer === 'granted')
  const [kill] = kills
  const held = grants.find(({ process }) => process !== 'B')
  const next = grants.find(({ process }) => process === 'B')
  if (kill === undefined || kills.length > 1) return `its holder was killed ${kills.length} times`
  if (held === undefined || held.answeredAtUs > kill.calledAtUs) return 'nobody held it'
  if (group.some(({ op, process }) => op === 'release' && process !== 'B')) return 'it was released'
  if (next === undefined) return { tookMs: null }
  if (next.answeredAtUs < kill.calledAtUs) return 'missed'
  const write = group.find(({ op, process }) => op === 'write' && process === 'B')
  if (write?.answer !== 'applied' || write.calledAtUs < next.answeredAtUs) return { tookMs: null }
  return { tookMs: (write.answeredAtUs - kill.calledAtUs) / 1_000 }
}

/** What etcd granted, at most, by its own word: whole seconds, and never less than was asked for. */
function grantedIn(entries: readonly Entry[], ttlMs: number, problems: string[]): number {
  const granted = entries.filter(({ op }) => op === 'granted').map(({ value = 0 }) => value)
  if (granted.length === 0) problems.push('nobody looked at what etcd granted')
  const least = Math.min(ttlMs, ...granted)
  if (least < ttlMs) problems.push(`etcd granted ${least} ms where ${ttlMs} were asked for`)
  return Math.max(ttlMs, ...granted)
}

function barOf(times: readonly number[], ttlMs: number): Bar[] {
  const what = 'holder killed: p50 until the next one’s first write, in TTLs'
  const bar = medianBar(what, CRASH_BAR_TTLS, times, [ttlMs])
  return bar === null ? [] : [bar]
}
