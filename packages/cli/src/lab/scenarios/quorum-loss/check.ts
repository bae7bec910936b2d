/**
 * The checker of the arms in which nodes of three lose something: was the lock ever two holders', do
 * tokens rise, what did the guard make of them, and did a node that had lost its data vote before the
 * locks were over that it had forgotten?
 */
import type { Entry } from '../../history.ts'
import type { ArmFindings } from '../../scenario.ts'
import type { TrialRecord } from '../../trial.ts'
import { isWalletState } from '../wallet/judge.ts'
import { compareWithLog } from '../wallet/log.ts'
import type { WalletState } from '../wallet/stores.ts'
import { byRound, failureIn } from '../watchdog/rounds.ts'
import { type Expected, expectedOf } from './expected.ts'

/** Written down here, so that the checker does not ask those who play the story. */
const TTL_MS = 4_000
const SAME_CLOCK_SECONDS = 60

interface Judged {
  readonly repeated: boolean
  readonly fell: boolean
  readonly refusedGood: boolean
  readonly admittedStale: boolean
  readonly heldByTwo: boolean
  /** A node that lost its data voted again, and not before its time. */
  readonly isReadmitted: boolean
  readonly isEarly: boolean
  readonly wasInTime: boolean
}

export function checkQuorumLoss({ arm, entries, finals }: TrialRecord): ArmFindings {
  const expected = expectedOf(arm.name)
  const problems: string[] = []
  const breaches: string[] = []
  const judged: Judged[] = []
  const rows: readonly unknown[] = Array.isArray(finals) ? finals : []
  for (const [round, group] of byRound(entries)) {
    const state = rows[round]
    const problem =
      failureIn(group) ?? storyProblem(group, expected) ?? lossProblem(group, expected)
    if (problem !== null) problems.push(`round ${round}: ${problem}`)
    else if (!isWalletState(state)) problems.push(`round ${round}: the row could not be read`)
    else {
      const writes = group.filter(({ op }) => op === 'write')
      const account = compareWithLog(`round ${round}`, writes, state)
      problems.push(...account.problems)
      ;(arm.protected ? breaches : problems).push(...account.untruths)
      const one = judge(group, state, expected)
      judged.push(one)
      if (one.isEarly)
        breaches.push(`round ${round}: a node that had lost its data voted too early`)
    }
  }
  const counted = judged.filter(({ wasInTime }) => wasInTime)
  const count = (isSo: (one: Judged) => boolean): number => counted.filter(isSo).length
  return {
    rounds: counted.length,
    roundsTrue: count((one) => isClaimTrue(one, expected)),
    redrawn: judged.length - counted.length,
    metrics: {
      tokensRepeated: count(({ repeated }) => repeated),
      tokensFell: count(({ fell }) => fell),
      refusedGood: count(({ refusedGood }) => refusedGood),
      admittedStale: count(({ admittedStale }) => admittedStale),
      heldByTwo: count(({ heldByTwo }) => heldByTwo),
      ...(expected.isReadmitted && { readmitted: count(({ isReadmitted }) => isReadmitted) }),
    },
    timings: timingsOf(entries),
    problems,
    breaches,
  }
}

function isClaimTrue(one: Judged, { shows, isReadmitted }: Expected): boolean {
  const { repeated, fell, refusedGood, admittedStale, heldByTwo } = one
  const isTokenRight = !repeated && !fell && !refusedGood && !admittedStale
  const isTokenWrong = (repeated || fell) && refusedGood && admittedStale
  switch (shows) {
    case 'all is well':
      return isTokenRight && !heldByTwo && (!isReadmitted || one.isReadmitted)
    case 'two holders':
      return isTokenRight && heldByTwo
    case 'wrong tokens':
      return isTokenWrong && !heldByTwo
    case 'both':
      return isTokenWrong && heldByTwo
  }
}

function judge(entries: readonly Entry[], { log }: WalletState, expected: Expected): Judged {
  const grantsTo = (process: string): Entry[] =>
    entries.filter((entry) => entry.process === process && entry.answer === 'granted')
  const old = grantsTo('A').at(-1)
  const next = grantsTo('B')
  const before = grantsTo('A').map(tokenOf)
  const after = next.map(tokenOf)
  // The nodes got A's keys no earlier than A asked, so they stand until then by any right clock.
  const endsAtUs = (old?.calledAtUs ?? 0) + TTL_MS * 1_000
  const took = (process: string, value: number): boolean =>
    log.some(({ writer, newBalance }) => writer === process && newBalance === value)
  const tried = entries.find(({ op }) => op === 'try')
  const voting = entries.filter(({ op, answer }) => op === 'node' && answer === 'voting')
  const lost = entries.find(({ op }) => op === 'lose')
  return {
    repeated: after.some((token) => before.includes(token)),
    fell: after.some((token) => before.some((earlier) => token < earlier)),
    refusedGood: !took('B', 2),
    admittedStale: took('A', 3),
    heldByTwo: next.some(({ answeredAtUs }) => answeredAtUs < endsAtUs),
    isReadmitted: voting.length === expected.struck && risesAgain(next),
    isEarly: voting.some(
      ({ answeredAtUs }) => answeredAtUs < (lost?.calledAtUs ?? 0) + TTL_MS * 1_000,
    ),
    wasInTime: (tried?.answeredAtUs ?? Number.POSITIVE_INFINITY) < endsAtUs,
  }
}

function risesAgain(grants: readonly Entry[]): boolean {
  return grants.every((grant, at) => {
    const previous = grants[at - 1]
    return previous === undefined || tokenOf(grant) > tokenOf(previous)
  })
}

function tokenOf({ token }: Entry): bigint {
  return BigInt(token ?? 0)
}

/** Everybody did its part, one after the other: without one of these there is nothing to judge. */
function storyProblem(entries: readonly Entry[], { isReadmitted }: Expected): string | null {
  const steps: string[] = []
  const story = entries.filter(({ op }) => !['node', 'look', 'release'].includes(op))
  for (const [at, { process, op, answer, calledAtUs, token }] of story.entries()) {
    const previous = story[at - 1]
    if (previous !== undefined && calledAtUs < previous.answeredAtUs) {
      return `${op} of ${process} began before ${previous.op} was over`
    }
    if (answer === 'granted' && !/^[1-9]\d*$/.test(token ?? '')) return 'a token is missing'
    const step = `${process} ${op}`
    if (steps.at(-1) !== step) steps.push(step)
  }
  const tried = story.find(({ op }) => op === 'try')
  const wanted = [
    ...['A acquire', 'A write', 'lab lose', 'B try'],
    ...(tried?.answer === 'granted' ? [] : ['B acquire']),
    ...['B write', 'A write'],
    ...(isReadmitted ? ['B again'] : []),
  ]
  if (steps.join() !== wanted.join()) return `it went ${steps.join(', ')}, and not as it should`
  const written = story.filter(({ op }) => op === 'write').map(({ value }) => value)
  if (written.join() !== '1,2,3') return `the writes are ${written.join()}`
  return story.find(({ op }) => op === 'write')?.answer === 'applied'
    ? null
    : 'A could not write before the loss'
}

/** What was to happen to the nodes has happened, and the clocks did what the arm says. */
function lossProblem(entries: readonly Entry[], expected: Expected): string | null {
  const looks = entries.filter(({ op }) => op === 'look')
  if (looks.length !== expected.struck) return `${looks.length} looks at ${expected.struck} nodes`
  const wrong = looks.find(({ answer }) => answer !== expected.lock)
  // One of three never had it, so of all of them one at least shows it.
  if (wrong !== undefined) return `after the loss the lock was ${wrong.answer} on a node`
  const isAhead = ({ value }: Entry): boolean =>
    Math.abs((value ?? Number.NaN) - expected.aheadSeconds) <= SAME_CLOCK_SECONDS
  const odd = looks.find((one) => !isAhead(one))
  if (odd !== undefined) return `the clock of a node was ${odd.value} s ahead`
  if (!expected.isReadmitted) return null
  const states = entries.filter(({ op }) => op === 'node').map(({ answer }) => answer)
  return states.includes('waiting') ? null : `the nodes were ${states.join(', ')}, never waiting`
}

function timingsOf(entries: readonly Entry[]): Record<string, number> {
  const lost = new Map(entries.filter(({ op }) => op === 'lose').map((one) => [one.round, one]))
  const waits = entries
    .filter(({ op, answer }) => op === 'node' && answer === 'voting')
    .map(
      ({ round, answeredAtUs }) => answeredAtUs - (lost.get(round)?.answeredAtUs ?? answeredAtUs),
    )
  return waits.length === 0 ? {} : { readmittedAfterMsMax: Math.round(Math.max(...waits) / 1_000) }
}
