/**
 * The checker of `data-loss`. Tokens are compared with all that were granted before in the round;
 * which write took effect is read from the log that PostgreSQL kept of the row.
 */
import type { Entry } from '../../history.ts'
import type { ArmFindings } from '../../scenario.ts'
import type { TrialRecord } from '../../trial.ts'
import { isWalletState, sumOf } from '../wallet/judge.ts'
import { compareWithLog } from '../wallet/log.ts'
import type { WalletState } from '../wallet/stores.ts'

/** Of A before the loss, of B, and of A when B has written; each is told by the balance it writes. */
const WRITES = [
  { process: 'A', value: 1 },
  { process: 'B', value: 2 },
  { process: 'A', value: 3 },
] as const

/** The steps of a round in their order; A's first two are there once or more. */
const ORDER = ['A acquire', 'A write', 'lab lose', 'lab look', 'B acquire', 'B write', 'A write']

/** A clock of the same machine, read in two processes; and one that was set back by an hour. */
const SAME_CLOCK_SECONDS = 60
const CLOCK_BACK_SECONDS = 3_500

interface Judged {
  readonly repeated: boolean
  readonly fell: boolean
  readonly refusedGood: boolean
  readonly admittedStale: boolean
}

export function checkDataLoss(record: TrialRecord): ArmFindings {
  const { arm, rounds, entries, finals } = record
  const states: readonly unknown[] = Array.isArray(finals) ? finals : []
  const problems: string[] = []
  const breaches: string[] = []
  const judged: Judged[] = []
  for (let round = 0; round < rounds; round++) {
    const own = entries.filter((entry) => entry.round === round)
    const state = states[round]
    problems.push(...storyProblems(round, own), ...lossProblems(round, own, arm.name))
    if (!isWalletState(state)) {
      problems.push(`round ${round}: the store's account of its row could not be read`)
      continue
    }
    const name = `round ${round}`
    const account = compareWithLog(
      name,
      own.filter(({ op }) => op === 'write'),
      state,
    )
    problems.push(...account.problems)
    ;(arm.protected ? breaches : problems).push(...account.untruths)
    judged.push(judge(own, state))
  }
  if (states.length > rounds) problems.push(`${states.length} rows for ${rounds} rounds`)
  return {
    rounds: judged.length,
    roundsTrue: judged.filter((one) => isClaimTrue(one, arm.protected)).length,
    redrawn: 0,
    metrics: {
      tokensRepeated: judged.filter(({ repeated }) => repeated).length,
      tokensFell: judged.filter(({ fell }) => fell).length,
      refusedGood: judged.filter(({ refusedGood }) => refusedGood).length,
      admittedStale: judged.filter(({ admittedStale }) => admittedStale).length,
    },
    timings: timingsOf(entries),
    problems,
    breaches,
  }
}

function judge(entries: readonly Entry[], { log }: WalletState): Judged {
  const tokenOf = ({ token }: Entry): bigint => BigInt(token ?? 0)
  const grants = entries.filter(({ op, answer }) => op === 'acquire' && answer === 'granted')
  const before = grants.filter(({ process }) => process === 'A').map(tokenOf)
  const after = grants.filter(({ process }) => process === 'B').map(tokenOf)
  const took = ({ process, value }: (typeof WRITES)[number]): boolean =>
    log.some(({ writer, newBalance }) => writer === process && newBalance === value)
  return {
    repeated: after.some((token) => before.includes(token)),
    fell: after.some((token) => before.some((earlier) => token < earlier)),
    refusedGood: !took(WRITES[1]),
    admittedStale: took(WRITES[2]),
  }
}

/** With protection none of the four; without, tokens that are no larger, and what follows of it. */
function isClaimTrue(one: Judged, isProtected: boolean): boolean {
  const { repeated, fell, refusedGood, admittedStale } = one
  if (isProtected) return !repeated && !fell && !refusedGood && !admittedStale
  return (repeated || fell) && refusedGood && admittedStale
}

/** Everybody did its part, one after the other: without one of these there is nothing to judge. */
function storyProblems(round: number, entries: readonly Entry[]): string[] {
  const problems: string[] = []
  const steps: string[] = []
  const inOrder = [...entries].sort((a, b) => a.calledAtUs - b.calledAtUs)
  inOrder.forEach((entry, index) => {
    const { process, op, answer, detail, answeredAtUs, calledAtUs } = entry
    const previous = inOrder[index - 1]
    if (answer === 'failed') problems.push(`round ${round}: ${op} of ${process} failed: ${detail}`)
    if (answeredAtUs < calledAtUs) {
      problems.push(`round ${round}: ${op} of ${process} was answered before it began`)
    }
    if (previous !== undefined && calledAtUs < previous.answeredAtUs) {
      problems.push(`round ${round}: ${op} of ${process} began before ${previous.op} was over`)
    }
    const step = `${process} ${op}`
    if (op !== 'release' && steps.at(-1) !== step) steps.push(step)
  })
  if (steps.join() !== ORDER.join()) {
    problems.push(`round ${round}: it went ${steps.join(', ')}, and not as it should`)
  }
  const writes = inOrder.filter(({ op }) => op === 'write')
  const told = writes.map(({ process, value }) => `${process}${value}`).join()
  if (told !== WRITES.map(({ process, value }) => `${process}${value}`).join()) {
    problems.push(`round ${round}: the writes are ${told}`)
  }
  const [first] = writes
  if (first !== undefined && first.answer !== 'applied') {
    problems.push(`round ${round}: A could not write before the loss`)
  }
  return [...problems, ...tokenProblems(round, inOrder)]
}

/** A grant has a token, tokens rise before the loss, and everybody writes with the own one. */
function tokenProblems(round: number, inOrder: readonly Entry[]): string[] {
  const problems: string[] = []
  const latest = new Map<string, bigint>()
  for (const { process, op, answer, token } of inOrder) {
    if (op === 'acquire') {
      if (answer !== 'granted' || token === undefined || !/^[1-9]\d*$/.test(token)) {
        problems.push(`round ${round}: ${process} was not granted a token`)
        continue
      }
      const before = latest.get(process) ?? 0n
      if (BigInt(token) <= before) {
        problems.push(`round ${round}: ${process} was granted ${token} after ${before}`)
      }
      latest.set(process, BigInt(token))
    }
    if (op === 'write' && token !== `${latest.get(process)}`) {
      problems.push(`round ${round}: ${process} wrote with token ${token}, which is not its own`)
    }
  }
  return problems
}

/** The data were really lost, and the clock did what the arm says. */
function lossProblems(round: number, entries: readonly Entry[], arm: string): string[] {
  const look = entries.find(({ op }) => op === 'look')
  if (look === undefined) return []
  const problems: string[] = []
  if (look.answer !== 'gone') problems.push(`round ${round}: the lock survived the loss`)
  const ahead = look.value ?? Number.NaN
  const isBack = arm.includes('clock back')
  const isRight = isBack ? ahead <= -CLOCK_BACK_SECONDS : Math.abs(ahead) <= SAME_CLOCK_SECONDS
  if (!isRight) problems.push(`round ${round}: the clock of Redis was ${ahead} s ahead`)
  return problems
}

function timingsOf(entries: readonly Entry[]): Record<string, number> {
  const losses = entries.filter(({ op }) => op === 'lose')
  if (losses.length === 0) return {}
  const sumUs = sumOf(losses, ({ calledAtUs, answeredAtUs }) => answeredAtUs - calledAtUs)
  return { lossMsMean: Math.round(sumUs / losses.length / 1_000) }
}
