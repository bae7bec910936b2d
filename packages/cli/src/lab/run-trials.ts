/**
 * Runs one scenario of trials: its arms in an order that the seed decides, as many at a time as the
 * scenario allows, and at the end the checker's findings. An error of any arm ends the scenario.
 */
import { type ArmVerdict, verdictOf, verdictOfAll } from './checker.ts'
import { drawOrder } from './draw.ts'
import type { History } from './history.ts'
import type { ArmResult, Progress, ScenarioResult } from './run.ts'
import { RunningTrial } from './running-trial.ts'
import type { Addresses, ArmFindings } from './scenario.ts'
import { whatIsMissing } from './servers/index.ts'
import type { TrialArm, TrialPlan, TrialScenario } from './trial.ts'

export interface TrialRunOptions {
  readonly scenario: TrialScenario
  /** URL of the module that exports it, for the workers. */
  readonly module: string
  readonly addresses: Addresses
  /** The rounds of the command line; the scenario says what they mean for it. */
  readonly rounds: number
  readonly seed: number
  readonly history: History
  readonly onProgress: (progress: Progress) => void
}

export async function runTrials(options: TrialRunOptions): Promise<ScenarioResult> {
  return new TrialsRun(options).run()
}

class TrialsRun {
  readonly #options: TrialRunOptions
  readonly #plan: TrialPlan
  readonly #results = new Map<string, ArmResult>()
  readonly #running = new Set<RunningTrial>()
  readonly #errors: string[] = []

  constructor(options: TrialRunOptions) {
    this.#options = options
    this.#plan = options.scenario.plan(options.rounds)
  }

  async run(): Promise<ScenarioResult> {
    const { scenario, seed } = this.#options
    const { name, claim, armsAtOnce } = scenario
    const waiting = drawOrder(seed, name, scenario.arms)
    const runSome = async (): Promise<void> => {
      for (let arm = waiting.shift(); arm !== undefined; arm = waiting.shift()) {
        this.#results.set(arm.name, await this.#armResult(arm))
      }
    }
    await Promise.all(Array.from({ length: armsAtOnce }, () => runSome()))
    const arms = scenario.arms.flatMap((arm) => this.#results.get(arm.name) ?? [])
    const lanes = Math.min(armsAtOnce, arms.length)
    return { name, claim, verdict: verdictOfAll(arms), lanes, arms, errors: this.#errors }
  }

  /** Never rejects: what goes wrong is an error of the scenario, and the arm is void. */
  async #armResult(arm: TrialArm): Promise<ArmResult> {
    const beganAtMs = performance.now()
    try {
      const obstacle =
        whatIsMissing(arm.servers ?? []) ?? (await arm.obstacle?.(this.#plan)) ?? null
      if (obstacle !== null) {
        return { ...resultOf(arm, 'skipped', NOTHING, beganAtMs), skipped: obstacle }
      }
      const findings = await this.#findingsOf(arm)
      const verdict = verdictOf(arm, this.#plan.rounds, findings)
      return resultOf(arm, verdict, findings, beganAtMs)
    } catch (error) {
      this.#giveUp(error)
      const problems = [`it came to no end: ${String(error).split('\n')[0]}`]
      return resultOf(arm, 'void', { ...NOTHING, problems }, beganAtMs)
    }
  }

  async #findingsOf(arm: TrialArm): Promise<ArmFindings> {
    if (this.#errors.length > 0) throw new Error('another arm had failed')
    const { scenario, history, onProgress } = this.#options
    const running = new RunningTrial({
      ...this.#options,
      arm,
      plan: this.#plan,
      onProgress: (roundsDone) => onProgress({ arm: arm.name, roundsDone, redrawn: 0 }),
    })
    this.#running.add(running)
    try {
      const finals = await running.run()
      history.writeLines([{ final: { arm: arm.name, state: finals } }])
      const { name, protected: isProtected } = arm
      const record = { arm: { name, protected: isProtected }, ...this.#plan, finals }
      return scenario.check({ ...record, entries: history.of(name) })
    } finally {
      this.#running.delete(running)
    }
  }

  /** The first error counts; that the other arms were ended because of it is no news. */
  #giveUp(error: unknown): void {
    if (this.#errors.length > 0) return
    this.#errors.push(error instanceof Error ? (error.stack ?? error.message) : String(error))
    for (const running of this.#running) running.stop(new Error('another arm had failed'))
  }
}

const NOTHING: ArmFindings = {
  ...{ rounds: 0, roundsTrue: 0, redrawn: 0, metrics: {}, timings: {} },
  ...{ problems: [], breaches: [] },
}

function resultOf(
  arm: TrialArm,
  verdict: ArmVerdict,
  findings: ArmFindings,
  beganAtMs: number,
): ArmResult {
  const { name, protected: isProtected, notCovered, claim } = arm
  const elapsedMs = Math.round(performance.now() - beganAtMs)
  const face = { name, protected: isProtected, ...(notCovered && { notCovered }), claim }
  return { ...face, verdict, elapsedMs, ...findings }
}
