import type { Bar } from '../bars.ts'
import type { ArmResult, ScenarioResult } from '../run.ts'

/** What a run was, as far as the report tells. */
export interface RunInfo {
  readonly commit: string
  readonly seed: number
  readonly profile: string
  /** Of each arm, where a scenario does not say otherwise of itself. */
  readonly rounds: number
  readonly pause: string
  readonly replay: string
  /** What the locks and the data were in. */
  readonly stores: 'servers' | 'embedded'
  readonly node: string
  /** When it began, ISO 8601 in UTC. */
  readonly startedAt: string
  readonly machine: MachineInfo
  /** Versions of those that it started, by kind. */
  readonly servers: Readonly<Record<string, string>>
  /** The driver and its SQLite, where the stores are embedded. */
  readonly sqlite: { readonly driver: string; readonly version: string } | null
}

export interface MachineInfo {
  readonly cpu: string
  /** How many cores this process may use. */
  readonly cores: number
  readonly memoryGiB: number
  readonly system: string
}

/** A result, and how many rounds of each arm it was to be. */
export type PlannedResult = ScenarioResult & { readonly rounds: number }

/** The one JSON text of a run. Fields are added to it; none changes its meaning. */
export interface LabDocument extends RunInfo {
  /** Servers and all: what who called the command waited, less the start of Node. */
  readonly elapsedMs: number
  readonly scenarios: readonly ScenarioDocument[]
}

export type ScenarioDocument = Pick<
  PlannedResult,
  'name' | 'claim' | 'verdict' | 'lanes' | 'rounds' | 'errors'
> & { readonly arms: readonly ArmDocument[] }

export type ArmDocument = Omit<ArmResult, 'roundsTrue' | 'notCovered' | 'skipped' | 'bars'> & {
  readonly notCovered: boolean
  readonly skipped: string | null
  /** Absent from the records that are older than it. */
  readonly bars?: readonly Bar[]
}

export function labDocument(
  run: RunInfo,
  elapsedMs: number,
  results: readonly PlannedResult[],
): LabDocument {
  return { ...run, elapsedMs, scenarios: results.map(scenarioDocument) }
}

export function jsonReport(document: LabDocument): string {
  return JSON.stringify(document, null, 2)
}

function scenarioDocument(result: PlannedResult): ScenarioDocument {
  const { name, claim, verdict, lanes, rounds, arms, errors } = result
  return { name, claim, verdict, lanes, rounds, errors, arms: arms.map(armDocument) }
}

function armDocument(arm: ArmResult): ArmDocument {
  const { name, protected: isProtected, claim, verdict, rounds, redrawn, metrics } = arm
  const { timings, elapsedMs, problems, breaches } = arm
  const { notCovered = false, skipped = null, bars = [] } = arm
  const figures = { rounds, redrawn, metrics, timings, elapsedMs }
  const face = { name, protected: isProtected, notCovered, claim, verdict, skipped }
  return { ...face, ...figures, bars, problems, breaches }
}
