/**
 * The checker of `unlock`. B and C hold together when both were granted the lock, B had not
 * released it and B's TTL was not over. The workers' word is compared with the key itself, which
 * the lab read in between.
 */
import { nextGrantTimings, type Performance, performancesOf, timeProblems } from '../../checker.ts'
import type { Entry } from '../../history.ts'
import type { ArmFindings, ArmRecord, PauseFault } from '../../scenario.ts'
import { HOLD_MS } from '../hold.ts'

/**
 * B holds the lock before A's pause is over, everybody got an answer, and the lab has looked while
 * B's TTL ran.
 */
export function isUnlockAsPlanned(entries: readonly Entry[]): boolean {
  const pause = entries.find(({ op }) => op === 'pause')
  const look = entries.find(({ op }) => op === 'look')
  const b = find(entries, 'B', 'acquire')
  return (
    pause !== undefined &&
    look !== undefined &&
    entries.every(({ answer }) => answer !== 'unanswered') &&
    find(entries, 'A', 'acquire')?.answer === 'granted' &&
    b?.answer === 'granted' &&
    b.answeredAtUs <= pause.answeredAtUs &&
    look.answeredAtUs < b.calledAtUs + HOLD_MS * 1_000
  )
}

export function checkUnlock(record: ArmRecord): ArmFindings {
  const { performances, problems } = performancesOf(record, isUnlockAsPlanned)
  const breaches: string[] = []
  for (const performance of performances) {
    problems.push(...timeProblems(performance, record.fault))
    problems.push(...storyProblems(performance))
    const untruths = lookProblems(performance, record.fault)
    ;(record.arm.protected ? breaches : problems).push(...untruths)
  }
  const counted = performances.filter(({ isAsPlanned }) => isAsPlanned)
  const doubleHolding = counted.filter(isHeldTwice).length
  return {
    rounds: counted.length,
    roundsTrue: record.arm.protected ? counted.length - doubleHolding : doubleHolding,
    redrawn: performances.length - counted.length,
    metrics: { doubleHolding },
    timings: nextGrantTimings(counted),
    problems,
    breaches,
  }
}

function isHeldTwice({ entries }: Performance): boolean {
  const b = find(entries, 'B', 'acquire')
  const c = find(entries, 'C', 'acquire')
  const releasedAtUs = find(entries, 'B', 'release')?.calledAtUs ?? Number.POSITIVE_INFINITY
  return (
    b?.answer === 'granted' &&
    c?.answer === 'granted' &&
    c.answeredAtUs < releasedAtUs &&
    c.answeredAtUs < b.calledAtUs + HOLD_MS * 1_000
  )
}

/** Everybody did its part: without one of these there is nothing to judge. */
function storyProblems({ round, entries }: Performance): string[] {
  const problems: string[] = []
  const parts = ['A acquire', 'B acquire', 'C acquire', 'lab look']
  for (const process of ['A', 'B', 'C']) {
    if (find(entries, process, 'acquire')?.answer === 'granted') parts.push(`${process} release`)
  }
  for (const part of parts) {
    const [process = '', op = ''] = part.split(' ')
    const count = entries.filter((entry) => entry.process === process && entry.op === op).length
    if (count !== 1) problems.push(`round ${round}: ${op} of ${process} is there ${count} times`)
  }
  const c = find(entries, 'C', 'acquire')
  const cleanUp = find(entries, 'A', 'release')
  if (cleanUp !== undefined && c !== undefined && c.calledAtUs < cleanUp.answeredAtUs) {
    problems.push(`round ${round}: C asked before A had cleaned up`)
  }
  return problems
}

/** The key names the last one who was granted it, and nobody gets it while A's TTL still runs. */
function lookProblems({ round, entries }: Performance, fault: PauseFault): string[] {
  const problems: string[] = []
  const [a, b, c] = ['A', 'B', 'C'].map((process) => find(entries, process, 'acquire'))
  const look = entries.find(({ op }) => op === 'look')
  const last = c?.answer === 'granted' ? c : b
  // B may have been late, and be granted the key only after the look.
  if (look !== undefined && last?.owner !== undefined && last.answeredAtUs <= look.calledAtUs) {
    if (!look.detail?.includes(last.owner)) {
      problems.push(`round ${round}: the key is not ${last.process}'s, who was granted it last`)
    }
  }
  const cleanUp = find(entries, 'A', 'release')
  if (
    a !== undefined &&
    b?.answer === 'granted' &&
    b.answeredAtUs < a.calledAtUs + fault.ttlMs * 1_000 &&
    b.answeredAtUs < (cleanUp?.calledAtUs ?? Number.POSITIVE_INFINITY)
  ) {
    problems.push(`round ${round}: B was granted a lock that A still held`)
  }
  return problems
}

function find(entries: readonly Entry[], process: string, op: string): Entry | undefined {
  return entries.find((entry) => entry.process === process && entry.op === op)
}
