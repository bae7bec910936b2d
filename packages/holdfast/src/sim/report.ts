/** Runs many schedules, and tells what came of them. */
import type { Invariant } from './invariants.ts'
import type { Verdict } from './mutate.ts'
import { SCENARIO_NAMES, type ScenarioName } from './scenarios.ts'
import { runSchedule } from './world.ts'

export type Broken = Readonly<{ seed: number; scenario: ScenarioName; invariant: Invariant }>

export interface Summary {
  readonly schedules: number
  readonly events: number
  /** Leases that a holder was given. */
  readonly acquisitions: number
  /** One for each invariant of a schedule that is broken. */
  readonly violations: readonly Broken[]
}

export type Asked = Readonly<{
  schedules: number
  /** The first; each schedule takes the next one. */
  seed: number
  /** Null: all in turn. */
  scenario: ScenarioName | null
}>

/** Which of how many parts of the same schedules. */
export type Part = Readonly<{ which: number; of: number }>

export const WHOLE: Part = { which: 0, of: 1 }

/** Enough to see a pattern; a bug that breaks every schedule need not be shown by each of them. */
const BROKEN_MAX = 20

export async function simulate(
  { schedules, seed, scenario }: Asked,
  part: Part = WHOLE,
): Promise<Summary> {
  const violations: Broken[] = []
  let count = 0
  let events = 0
  let acquisitions = 0
  for (let place = 0; place < schedules && violations.length < BROKEN_MAX; place++) {
    // By rounds of all scenarios, so that each part has its share of each.
    if (Math.floor(place / SCENARIO_NAMES.length) % part.of !== part.which) continue
    const name = scenario ?? (SCENARIO_NAMES[place % SCENARIO_NAMES.length] as ScenarioName)
    const own = seed + place
    const outcome = await withoutStacks(() => runSchedule(own, name))
    count += 1
    events += outcome.events
    acquisitions += outcome.history.held.length
    const broken = new Set(outcome.violations.map(({ invariant }) => invariant))
    for (const invariant of broken) violations.push({ seed: own, scenario: name, invariant })
  }
  return { schedules: count, events, acquisitions, violations }
}

/**
 * Errors are part of every schedule, and making their stacks costs a sixth of it. Nobody reads them here:
 * a violation is replayed, and so is what a schedule throws.
 */
async function withoutStacks<T>(run: () => Promise<T>): Promise<T> {
  const limit = Error.stackTraceLimit
  try {
    Error.stackTraceLimit = 0
    return await run()
  } catch {
    Error.stackTraceLimit = limit
    return await run()
  } finally {
    Error.stackTraceLimit = limit
  }
}

export function replayCommand({ seed, scenario }: Broken): string {
  return `npm run -s sim -- --scenario ${scenario} --seed ${seed} --schedules 1`
}

/** For people: the first broken schedule in full, the others in a line each. */
export async function textOf(summary: Summary): Promise<string> {
  const { schedules, events, acquisitions, violations } = summary
  const lines = [
    `${schedules} schedules, ${events} events, ${acquisitions} acquisitions, ` +
      `${violations.length} violations`,
  ]
  const [first] = violations
  if (first === undefined) return lines[0] as string
  const replayed = await runSchedule(first.seed, first.scenario, true)
  lines.push('', `seed ${first.seed}, scenario ${first.scenario}:`)
  lines.push(...replayed.violations.map(({ invariant, what }) => `  ${invariant}: ${what}`))
  lines.push('', '   time ms who   what', ...replayed.trace, '', 'Replay:')
  lines.push(...violations.map((one) => `  ${one.invariant}  ${replayCommand(one)}`))
  return lines.join('\n')
}

const NAME_WIDTH = 60

export function verdictLine({ name, caught, seed, invariant }: Verdict): string {
  const start = name.padEnd(NAME_WIDTH)
  if (caught === false) return `${start} LIVES`
  if (caught !== 'simulation') return `${start} caught by ${caught}`
  return `${start} caught by simulation, seed ${seed}, ${invariant}`
}
