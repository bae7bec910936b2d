/**
 * Turns: every contestant runs a short slice, then the next one does, again and again.
 *
 * A machine's speed moves by a factor of two within minutes, and all contestants must see the same
 * minutes. So a run is many short slices in turn, the first place moving on by one each time; a
 * figure is one run's; ratios are taken within a run, and the median over the runs is what is told.
 */
import type { Label } from './contestant.ts'
import { largest, percentile } from './statistics.ts'

/** What one slice was. */
export interface Sample {
  /** Pairs, sections or transactions that were done. */
  readonly count: number
  readonly elapsedMs: number
  /** One for each that was done, or for each wait. */
  readonly latenciesMs: readonly number[]
  /** How many each contender got; where there is more than one. */
  readonly shares?: readonly number[]
  /** All that the server was sent for all that {@link latenciesMs} lists. */
  readonly requests?: number
  /** Events of watches that the server sent to each process, for the same. */
  readonly events?: number
  /** Time that the server spent on them. Microseconds. */
  readonly serverUs?: number
  /** Processor time of this process. Microseconds. */
  readonly clientUs?: number
}

export interface Entry extends Label {
  readonly inFlight: number
  /** What the others are compared with whose `comparedWith` is the same. */
  readonly isReference: boolean
  /** Mostly the client. */
  readonly comparedWith: string
  readonly isOwnerChecked: boolean
  slice(): Promise<Sample>
  close(): Promise<void>
}

/** What one run showed of one entry. */
export interface RunFigures {
  readonly count: number
  readonly perSecond: number
  readonly p50Ms: number
  readonly p99Ms: number
  readonly longestMs: number
  /** The longest wait, in rounds: contenders x mean time of a section with its hand-over. */
  readonly longestRounds: number
  /** What each contender got; empty where there are none. */
  readonly shares: readonly number[]
  readonly requestsEach: number | null
  readonly eventsEach: number | null
  readonly serverUsEach: number | null
  readonly clientUsEach: number | null
}

/** What a row says of an entry. */
export type EntryLabel = Omit<Entry, 'slice' | 'close'>

export interface Measured {
  readonly entry: EntryLabel
  readonly runs: readonly RunFigures[]
}

export interface Failure extends Label {
  readonly reason: string
}

export interface Extent {
  readonly runs: number
  /** Of one run of all entries together; a round that began is finished. */
  readonly runMs: number
}

/**
 * Runs all entries in turn; each has run before, so that code is compiled and caches are filled.
 * One whose slice fails is taken out and reported; the others go on.
 *
 * @param onRun Called before each run, counted from 1.
 */
export async function measure(
  entries: readonly Entry[],
  { runs, runMs }: Extent,
  onRun: (run: number) => void,
): Promise<{ measured: Measured[]; failures: Failure[] }> {
  const failures: Failure[] = []
  const figures = new Map<Entry, RunFigures[]>(entries.map((entry) => [entry, []]))
  const take = async (entry: Entry): Promise<Sample | null> => {
    try {
      return await entry.slice()
    } catch (error) {
      figures.delete(entry)
      failures.push(failureOf(entry, error))
      return null
    }
  }
  for (let run = 1; run <= runs; run++) {
    onRun(run)
    const samples = await oneRun(figures, runMs, run, take)
    for (const [entry, own] of samples) figures.get(entry)?.push(figuresOf(own))
  }
  const measured = [...figures].map(([entry, own]) => ({ entry, runs: own }))
  return { measured, failures }
}

async function oneRun(
  figures: ReadonlyMap<Entry, unknown>,
  runMs: number,
  run: number,
  take: (entry: Entry) => Promise<Sample | null>,
): Promise<Map<Entry, Sample[]>> {
  const samples = new Map<Entry, Sample[]>()
  const endMs = performance.now() + runMs
  let first = run
  do {
    const inTurn = [...figures.keys()]
    for (let place = 0; place < inTurn.length; place++) {
      const entry = inTurn[(first + place) % inTurn.length] as Entry
      const sample = await take(entry)
      if (sample === null) continue
      const own = samples.get(entry)
      if (own === undefined) samples.set(entry, [sample])
      else own.push(sample)
    }
    first++
  } while (performance.now() < endMs && figures.size > 0)
  return samples
}

export function failureOf({ who, variant, client }: Label, error: unknown): Failure {
  const reason = error instanceof Error ? error.message : String(error)
  return { who, variant, client, reason }
}

/** @param samples Of one run, with one latency at least. */
export function figuresOf(samples: readonly Sample[]): RunFigures {
  const count = sumOf(samples, (sample) => sample.count)
  const elapsedMs = sumOf(samples, (sample) => sample.elapsedMs)
  const latenciesMs = samples.flatMap((sample) => [...sample.latenciesMs])
  const longestMs = largest(latenciesMs)
  const shares = addUp(samples.map((sample) => sample.shares ?? []))
  const each = (part: (sample: Sample) => number | undefined): number | null =>
    samples.every((sample) => part(sample) !== undefined)
      ? sumOf(samples, (sample) => part(sample) ?? 0) / latenciesMs.length
      : null
  return {
    count,
    perSecond: (count / elapsedMs) * 1_000,
    p50Ms: percentile(latenciesMs, 0.5),
    p99Ms: percentile(latenciesMs, 0.99),
    longestMs,
    longestRounds: longestMs / ((elapsedMs / count) * Math.max(1, shares.length)),
    shares,
    requestsEach: each((sample) => sample.requests),
    eventsEach: each((sample) => sample.events),
    serverUsEach: each((sample) => sample.serverUs),
    clientUsEach: each((sample) => sample.clientUs),
  }
}

function sumOf(samples: readonly Sample[], part: (sample: Sample) => number): number {
  return samples.reduce((sum, sample) => sum + part(sample), 0)
}

/** Shares of the same contender, over slices or over runs. */
export function addUp(all: readonly (readonly number[])[]): number[] {
  const sums: number[] = []
  for (const shares of all) {
    for (const [index, share] of shares.entries()) sums[index] = (sums[index] ?? 0) + share
  }
  return sums
}
