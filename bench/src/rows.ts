/** From the figures of the runs to the rows that are printed. */
import type { Backlog } from './clients.ts'
import { addUp, type Measured, type RunFigures } from './measure.ts'
import { jain, median } from './statistics.ts'

export interface Spread {
  readonly min: number
  readonly max: number
}

/** Of a lock on several servers, in one situation; of all runs together where nothing else is said. */
export interface QuorumFigures {
  readonly situation: string
  readonly tries: number
  /** Acquired and released. */
  readonly granted: number
  /** Given up by the bench. */
  readonly unanswered: number
  readonly longestRefusalMs: number | null
  /** Of the first refusal. */
  readonly reason: string | null
  /** At the end of the situation, for the server that is gone, of the worst run; null: not to be read. */
  readonly backlog: Backlog | null
  /** By how much the heap grew in its first slice, 100 tries or less; null: not looked at. */
  readonly heapKb: number | null
}

/** Figures are medians over the runs, ratios medians of the runs' own ratios. */
export interface Row {
  readonly group: string
  readonly who: string
  readonly client: string
  readonly inFlight: number
  readonly perSecond: number
  readonly p50Ms: number
  readonly p99Ms: number
  /** Of rates, to hand-written with token on the same client in the same run. */
  readonly ratio: number
  /** Of medians, to the same. */
  readonly p50Ratio: number
  readonly variant: string
  readonly isOwnerChecked: boolean
  /** Runs. */
  readonly n: number
  /** Done in all runs together. */
  readonly count: number
  readonly ratioSpread: Spread
  readonly p50RatioSpread: Spread
  /** The medians of the single runs, in their order: rows of one run can be compared with each other. */
  readonly p50MsOfRuns: readonly number[]
  readonly longestMs: number
  readonly longestWaitRounds: number
  /** Of all runs together, because a short one ends in the middle of a round. */
  readonly jain: number | null
  /** Sections that each contender got in all runs; null where there are none. */
  readonly shares: readonly number[] | null
  /** What the contender got who got least, of its fair share; null where there are none. */
  readonly smallestShare: number | null
  /** Requests for each, as the server counted them; null where they were not counted. */
  readonly requestsEach: number | null
  /** Events of watches that a process was sent for each; null where they were not counted. */
  readonly eventsEach: number | null
  /** Time that the server spent on them, microseconds; null where it was not counted. */
  readonly serverUsEach: number | null
  /** Processor time of the bench's own process, microseconds; null where it was not counted. */
  readonly clientUsEach: number | null
  /** Null but in the group `redlock`. */
  readonly quorum: QuorumFigures | null
}

/** Rows of one group; those whose reference failed have nothing to be compared with, and go. */
export function rowsOf(group: string, measured: readonly Measured[]): Row[] {
  return measured.flatMap((one) => {
    const reference = measured.find(
      ({ entry }) => entry.isReference && entry.comparedWith === one.entry.comparedWith,
    )
    return reference === undefined ? [] : [rowOf(group, one, reference)]
  })
}

/** @param reference With as many runs. */
export function rowOf(group: string, { entry, runs }: Measured, reference: Measured): Row {
  const of = (part: (run: RunFigures) => number): number => median(runs.map(part))
  const ratios = runs.map((run, index) => run.perSecond / at(reference, index).perSecond)
  const p50Ratios = runs.map((run, index) => run.p50Ms / at(reference, index).p50Ms)
  const shares = addUp(runs.map((run) => run.shares))
  const ofAll = (values: readonly (number | null)[]): number | null =>
    values.includes(null) ? null : median(values as number[])
  return {
    group,
    who: entry.who,
    client: entry.client,
    inFlight: entry.inFlight,
    perSecond: of((run) => run.perSecond),
    p50Ms: of((run) => run.p50Ms),
    p99Ms: of((run) => run.p99Ms),
    ratio: median(ratios),
    p50Ratio: median(p50Ratios),
    variant: entry.variant,
    isOwnerChecked: entry.isOwnerChecked,
    n: runs.length,
    count: runs.reduce((sum, { count }) => sum + count, 0),
    ratioSpread: spreadOf(ratios),
    p50RatioSpread: spreadOf(p50Ratios),
    p50MsOfRuns: runs.map((run) => run.p50Ms),
    longestMs: Math.max(...runs.map((run) => run.longestMs)),
    longestWaitRounds: of((run) => run.longestRounds),
    shares: shares.length === 0 ? null : shares,
    jain: shares.length === 0 ? null : jain(shares),
    smallestShare: shares.length === 0 ? null : smallestShare(shares),
    requestsEach: ofAll(runs.map((run) => run.requestsEach)),
    eventsEach: ofAll(runs.map((run) => run.eventsEach)),
    serverUsEach: ofAll(runs.map((run) => run.serverUsEach)),
    clientUsEach: ofAll(runs.map((run) => run.clientUsEach)),
    quorum: null,
  }
}

function smallestShare(shares: readonly number[]): number {
  const sum = shares.reduce((total, share) => total + share, 0)
  return (Math.min(...shares) * shares.length) / sum
}

function at({ runs }: Measured, index: number): RunFigures {
  const run = runs[index]
  if (run === undefined) throw new Error(`run ${index + 1} of the reference is missing`)
  return run
}

function spreadOf(values: readonly number[]): Spread {
  return { min: Math.min(...values), max: Math.max(...values) }
}
