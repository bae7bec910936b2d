import type { ArmResult, ScenarioResult } from '../run.ts'

/** What a run was, as far as the report tells. */
export interface RunInfo {
  readonly commit: string
  readonly seed: number
  readonly profile: string
  readonly rounds: number
  readonly pause: string
  readonly replay: string
  readonly node: string
}

/** The one JSON text of a run. */
export function jsonReport(run: RunInfo, results: readonly ScenarioResult[]): string {
  return JSON.stringify({ ...run, scenarios: results.map(scenarioJson) }, null, 2)
}

function scenarioJson({ name, claim, verdict, lanes, arms, errors }: ScenarioResult): object {
  return { name, claim, verdict, lanes, errors, arms: arms.map(armJson) }
}

function armJson(arm: ArmResult): object {
  const { name, protected: isProtected, claim, verdict, rounds, redrawn, metrics } = arm
  const { timings, elapsedMs, problems, breaches } = arm
  const { notCovered = false, skipped = null } = arm
  const figures = { rounds, redrawn, metrics, timings, elapsedMs }
  const face = { name, protected: isProtected, notCovered, claim, verdict, skipped }
  return { ...face, ...figures, problems, breaches }
}
