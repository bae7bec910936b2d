/**
 * The checker of `availability`: how many of those who asked were granted their lock, and how long it
 * took. The counts decide; the times are told.
 *
 * A refusal is late when it came after the caller's wait, plus what the caller's own process stood
 * still, which no library can make good.
 */
import { type Bar, hundredths, medianBar, quantile } from '../../bars.ts'
import type { Entry } from '../../history.ts'
import type { ArmFindings } from '../../scenario.ts'
import type { TrialRecord } from '../../trial.ts'

/** Written down here, so that the checker does not ask those who play the story. */
const WAIT_MS = 1_000
const LATE_MS = 250
/** At the p50 of one killed, or one hung, of three. */
const BAR = 1.2

interface Expected {
  readonly fault: string
  /** What the nodes are in the end, in alphabetical order. */
  readonly nodes: string
  readonly answer: 'granted' | 'refused'
}

const EXPECTED: Readonly<Record<string, Expected>> = {
  'one redis, alive': { fault: 'nothing', nodes: 'alive', answer: 'granted' },
  'one redis, killed': { fault: 'killed 1', nodes: 'gone', answer: 'refused' },
  'redlock of 3, all alive': { fault: 'nothing', nodes: 'alive alive alive', answer: 'granted' },
  'redlock of 3, one killed': { fault: 'killed 1', nodes: 'alive alive gone', answer: 'granted' },
  'redlock of 3, one hung': { fault: 'hung 1', nodes: 'alive alive silent', answer: 'granted' },
  'redlock of 3, two killed': { fault: 'killed 2', nodes: 'alive gone gone', answer: 'refused' },
  'etcd of 3, all alive': { fault: 'nothing', nodes: 'alive alive alive', answer: 'granted' },
  'etcd of 3, leader killed': { fault: 'killed 1', nodes: 'alive alive gone', answer: 'granted' },
  'etcd of 3, two killed': { fault: 'killed 2', nodes: 'alive gone gone', answer: 'refused' },
}

export function checkAvailability({ arm, rounds, entries }: TrialRecord): ArmFindings {
  const expected = EXPECTED[arm.name]
  if (expected === undefined) throw new Error(`no such arm: ${arm.name}`)
  const before = entries.filter(({ op }) => op === 'before')
  const asked = entries.filter(({ op }) => op === 'acquire')
  const base = before.map(lastedMs)
  const times = inRounds(asked).map(lastedMs)
  const granted = asked.filter(({ answer }) => answer === 'granted')
  return {
    rounds: asked.length,
    roundsTrue: asked.filter((one) => isTrue(one, expected.answer, arm.protected)).length,
    redrawn: 0,
    metrics: {
      ...{ tried: asked.length, succeeded: granted.length },
      ...{ p50Ms: hundredths(quantile(times, 0.5)), p99Ms: hundredths(quantile(times, 0.99)) },
      maxMs: hundredths(Math.max(0, ...times)),
    },
    timings: { p50MsBefore: hundredths(quantile(base, 0.5)) },
    bars: barsOf(expected, times, base),
    problems: [
      ...faultProblems(entries, expected),
      ...countProblems('before', before, rounds),
      ...countProblems('acquire', asked, rounds),
      ...before
        .filter(({ answer }) => answer !== 'granted')
        .map(({ round, detail }) => `round ${round}: refused before the fault: ${detail}`),
      ...tokenProblems([...before, ...granted]),
    ],
    breaches: [],
  }
}

/** Where nothing protects, nobody was promised when they are told. */
function isTrue(entry: Entry, expected: Expected['answer'], isProtected: boolean): boolean {
  if (entry.answer !== expected) return false
  const allowedMs = WAIT_MS + LATE_MS + (entry.value ?? 0)
  return expected === 'granted' || !isProtected || lastedMs(entry) <= allowedMs
}

function lastedMs({ calledAtUs, answeredAtUs }: Entry): number {
  return (answeredAtUs - calledAtUs) / 1_000
}

/** As they were asked, so that a part of them is a part of the time. */
function inRounds(entries: readonly Entry[]): Entry[] {
  return [...entries].sort((a, b) => a.round - b.round)
}

/** Where all are granted in spite of a fault: what it costs them. */
function barsOf({ answer, fault }: Expected, times: number[], base: number[]): readonly Bar[] {
  if (answer !== 'granted' || fault === 'nothing') return []
  return [medianBar('p50, as a multiple of that with all alive', BAR, times, base) ?? []].flat()
}

/** The fault happened between the two halves, and lasted to the end. */
function faultProblems(entries: readonly Entry[], expected: Expected): string[] {
  const problems = entries
    .filter(({ answer }) => answer === 'failed')
    .map(({ op, detail }) => `${op} failed: ${detail}`)
  const faults = entries.filter(({ op }) => op === 'fault')
  const looks = entries.filter(({ op }) => op === 'look')
  const [fault] = faults
  const [look] = looks
  if (fault === undefined || faults.length > 1) return [...problems, `${faults.length} faults`]
  if (fault.answer !== expected.fault) problems.push(`the fault was: ${fault.answer}`)
  if (look === undefined || looks.length > 1 || look.answer !== expected.nodes) {
    problems.push(`in the end the nodes were: ${look?.answer ?? 'not looked at'}`)
  }
  for (const { op, round, calledAtUs, answeredAtUs } of entries) {
    const isWrong =
      (op === 'before' && answeredAtUs > fault.calledAtUs) ||
      (op === 'acquire' && calledAtUs < fault.answeredAtUs) ||
      (op === 'acquire' && look !== undefined && answeredAtUs > look.calledAtUs)
    if (isWrong) problems.push(`round ${round}: ${op} was on the wrong side of the fault`)
  }
  return problems
}

/** Everybody who asked was told something, once. */
function countProblems(op: string, entries: readonly Entry[], rounds: number): string[] {
  const problems: string[] = []
  for (let round = 0; round < rounds; round++) {
    const count = entries.filter((entry) => entry.round === round).length
    if (count !== 1) problems.push(`round ${round}: ${count} times ${op}`)
  }
  if (entries.some(({ round }) => round >= rounds)) problems.push(`${op} of a round too many`)
  return problems
}

function tokenProblems(grants: readonly Entry[]): string[] {
  return grants
    .filter(({ answer, token }) => answer === 'granted' && !/^[1-9]\d*$/.test(token ?? ''))
    .map(({ round, op, token }) => `round ${round}: ${op} was granted with token ${token}`)
}
