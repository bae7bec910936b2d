/**
 * The part of checking that all scenarios share: which rounds count, whether a history is one that
 * can have happened, and what the findings come to.
 *
 * A checker gets the history and the stores' own final state, never an opinion of the code under
 * test: which round counts, what was lost and who was refused are worked out again from what was
 * written down. It imports nothing that was under test.
 */
import type { Entry } from './history.ts'
import type { ArmFindings, ArmRecord, PauseFault } from './scenario.ts'

export type Verdict = 'holds' | 'broken' | 'void'
/** An arm may also be left out, where the machine lacks what it needs. */
export type ArmVerdict = Verdict | 'skipped'

/**
 * An arm with protection holds when its claim was true in every round. An arm without must fail in
 * every round: `broken` if only some failed, `void` if none did, because then the fault did not
 * happen. `void` as well when the history cannot be trusted or rounds are missing.
 */
export function verdictOf(
  arm: { readonly protected: boolean },
  roundsWanted: number,
  findings: Pick<ArmFindings, 'rounds' | 'roundsTrue' | 'problems' | 'breaches'>,
): Verdict {
  const { rounds, roundsTrue, problems, breaches } = findings
  if (problems.length > 0) return 'void'
  // A promise that was broken once is broken, even if the run came to no end.
  if (arm.protected && (breaches.length > 0 || roundsTrue < rounds)) return 'broken'
  if (rounds < roundsWanted || rounds === 0) return 'void'
  if (roundsTrue === rounds) return 'holds'
  return roundsTrue === 0 ? 'void' : 'broken'
}

/**
 * One arm without meaning takes the meaning from all: its control is what the others rest on. An
 * arm that was skipped says nothing; if all were, nothing was shown.
 */
export function verdictOfAll(arms: readonly { readonly verdict: ArmVerdict }[]): Verdict {
  if (arms.every(({ verdict }) => verdict === 'skipped')) return 'void'
  if (arms.some(({ verdict }) => verdict === 'void')) return 'void'
  return arms.some(({ verdict }) => verdict === 'broken') ? 'broken' : 'holds'
}

/** One performance of a round: its entries in the order in which they were answered. */
export interface Performance {
  readonly lane: number
  readonly round: number
  readonly draw: number
  readonly entries: readonly Entry[]
  /** Entries that the lab added after it was over, to put the place back. */
  readonly undone: boolean
  readonly isAsPlanned: boolean
}

/** Sorts the entries of an arm into performances, and says which parts are missing. */
export function performancesOf(
  record: ArmRecord,
  isAsPlanned: (entries: readonly Entry[]) => boolean,
): { performances: Performance[]; problems: string[] } {
  const byId = new Map<string, Entry[]>()
  for (const entry of record.entries) {
    const key = `${entry.round}/${entry.draw}`
    const group = byId.get(key)
    if (group === undefined) byId.set(key, [entry])
    else group.push(entry)
  }
  const problems: string[] = []
  const performances: Performance[] = []
  for (const group of byId.values()) {
    group.sort((a, b) => a.answeredAtUs - b.answeredAtUs)
    const entries = group.filter(({ op }) => op !== 'undo')
    const { lane, round, draw } = group[0] as Entry
    if (group.some((entry) => entry.lane !== lane)) problems.push(`round ${round} is in two lanes`)
    const undone = entries.length < group.length
    performances.push({ lane, round, draw, entries, undone, isAsPlanned: isAsPlanned(entries) })
  }
  performances.sort((a, b) => a.round - b.round || a.draw - b.draw)
  problems.push(...drawProblems(performances), ...laneProblems(performances))
  return { performances, problems }
}

/**
 * A round is drawn again exactly when the fault did not happen as planned. Without this check a lab
 * could draw until it likes what it sees.
 */
function drawProblems(performances: readonly Performance[]): string[] {
  const problems: string[] = []
  let previous: Performance | null = null
  for (const performance of performances) {
    const { round, draw, undone, isAsPlanned } = performance
    const expected = previous?.round === round ? previous.draw + 1 : 0
    if (draw !== expected) problems.push(`round ${round}: draw ${expected} is missing`)
    if (previous?.round === round && previous.isAsPlanned) {
      problems.push(`round ${round} was drawn again although it went as planned`)
    }
    if (undone === isAsPlanned) {
      const what = undone ? 'was undone although it went' : 'counts although it did not go'
      problems.push(`round ${round}, draw ${draw}, ${what} as planned`)
    }
    previous = performance
  }
  return problems
}

/** One lane does one round at a time, so its performances cannot overlap. */
function laneProblems(performances: readonly Performance[]): string[] {
  const problems: string[] = []
  for (const group of groupByLane(performances).values()) {
    const spans = group
      .map(({ round, entries }) => ({
        round,
        from: Math.min(...entries.map((entry) => entry.calledAtUs)),
        to: Math.max(...entries.map((entry) => entry.answeredAtUs)),
      }))
      .sort((a, b) => a.from - b.from)
    spans.forEach((span, index) => {
      const before = spans[index - 1]
      if (before !== undefined && span.from < before.to) {
        problems.push(`rounds ${before.round} and ${span.round} of one lane overlap`)
      }
    })
  }
  return problems
}

function groupByLane(performances: readonly Performance[]): Map<number, Performance[]> {
  const lanes = new Map<number, Performance[]>()
  for (const performance of performances) {
    const group = lanes.get(performance.lane)
    if (group === undefined) lanes.set(performance.lane, [performance])
    else group.push(performance)
  }
  return lanes
}

/**
 * What no process can have done: be answered before it asked, two things at once, act while stopped.
 *
 * @param fault Null in an arm in which nobody pauses.
 */
export function timeProblems(performance: Performance, fault: PauseFault | null): string[] {
  const problems: string[] = []
  const { round, entries } = performance
  const byProcess = new Map<string, Entry>()
  for (const entry of entries) {
    const what = `round ${round}: ${entry.op} of ${entry.process}`
    if (entry.answeredAtUs < entry.calledAtUs) problems.push(`${what} was answered before it began`)
    if (entry.answer === 'failed') problems.push(`${what} failed: ${entry.detail}`)
    const previous = byProcess.get(entry.process)
    if (previous !== undefined && entry.calledAtUs < previous.answeredAtUs) {
      problems.push(`${what} began before ${previous.op} was over`)
    }
    byProcess.set(entry.process, entry)
  }
  if (fault !== null) return [...problems, ...pauseProblems(performance, fault)]
  if (entries.some(({ op }) => op === 'pause')) problems.push(`round ${round}: somebody paused`)
  return problems
}

function pauseProblems({ round, entries }: Performance, fault: PauseFault): string[] {
  const pauses = entries.filter(({ op }) => op === 'pause')
  const [pause] = pauses
  if (pause === undefined || pauses.length > 1 || pause.process !== fault.role) {
    return [`round ${round}: ${fault.role} must pause once, ${pauses.length} pauses are recorded`]
  }
  const problems: string[] = []
  // Timers fire on whole milliseconds and may be rounded down.
  const lastedMs = (pause.answeredAtUs - pause.calledAtUs) / 1_000
  if (lastedMs < fault.pauseMs - 2) {
    problems.push(`round ${round}: the pause lasted ${lastedMs} ms of ${fault.pauseMs}`)
  }
  const stop = entries.find(({ op }) => op === 'stop')
  const goOn = entries.find(({ op }) => op === 'continue')
  if (stop === undefined && goOn === undefined) return problems
  if (stop === undefined || goOn === undefined || goOn.calledAtUs < stop.answeredAtUs) {
    return [...problems, `round ${round}: a stop and a continue do not belong together`]
  }
  const isWithin = (timeUs: number): boolean =>
    timeUs > stop.answeredAtUs && timeUs < goOn.calledAtUs
  for (const { op, process, calledAtUs, answeredAtUs } of entries) {
    if (process === fault.role && (isWithin(calledAtUs) || isWithin(answeredAtUs))) {
      problems.push(`round ${round}: ${op} of ${process} happened while ${process} was stopped`)
    }
  }
  return problems
}

/** How long after A had asked for its lock B was granted it, at most, in milliseconds. */
export function nextGrantTimings(performances: readonly Performance[]): Record<string, number> {
  const afters = performances.flatMap(({ entries }) => {
    const [a, b] = ['A', 'B'].map((role) =>
      entries.find(
        ({ op, process, answer }) => op === 'acquire' && process === role && answer === 'granted',
      ),
    )
    return a === undefined || b === undefined ? [] : [(b.answeredAtUs - a.calledAtUs) / 1_000]
  })
  return afters.length === 0 ? {} : { nextGrantAfterMsMax: tenths(Math.max(...afters)) }
}

export function tenths(ms: number): number {
  return Math.round(ms * 10) / 10
}
