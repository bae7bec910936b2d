/**
 * `npm run sim -- [--schedules n] [--scenario s] [--seed n] [--jobs n] [--mutants] [--json]`
 * `npm run sim -- --model [--variant v] [--large] [--json]`
 *
 * Exit codes: 0 nothing is broken, and with `--mutants` or `--model` every bug was caught; 1 an invariant
 * is broken, or a bug was not caught; 2 wrong usage. stdout has the result alone.
 */
import { parseArgs } from 'node:util'
import { judgeOn, simulateOn } from './jobs.ts'
import { isAsExpected, judgeVariant, type ModelVerdict, modelText } from './model/judge.ts'
import { LARGE_VARIANTS, VARIANTS, type Variant } from './model/variants.ts'
import { ELSEWHERE, MUTANTS } from './mutants.ts'
import type { Verdict } from './mutate.ts'
import { nodeSideMutants } from './node-side-mutants.ts'
import { type Asked, textOf, verdictLine } from './report.ts'
import { isScenario, SCENARIO_NAMES } from './scenarios.ts'

const SCHEDULES_DEFAULT = 2000
/** For each mutant; rare ones need more than a hundred. */
const MUTANT_SCHEDULES_DEFAULT = 500
const SEED_MAX = 2 ** 31 - 1
const JOBS_MAX = 64

const TOO_RARE: ReadonlySet<string> = new Set([
  'ackAnyOwner',
  'admitOnOthersWait',
  'admitWithoutInc',
  'repairEarly',
  'repairNoWait',
  'repairReadOne',
])

const USAGE = `usage: npm run -s sim -- [options]
  --schedules n  how many, 1 to ${SEED_MAX}; ${SCHEDULES_DEFAULT}, or ${MUTANT_SCHEDULES_DEFAULT} at most for each mutant
  --scenario s   ${SCENARIO_NAMES.join(', ')}; all in turn
  --seed n       the first seed, 1 to ${SEED_MAX}; 1, or for a mutant the one that showed it before
  --jobs n       on how many threads, 1 to ${JOBS_MAX}; 1
  --mutants      puts known bugs into a copy of the sources, and tells whether they are caught
  --model        searches all states of the exhaustive model, and tells whether it holds and finds its bugs
  --variant v    with --model: that one alone
  --large        with --model: the large scopes, which take minutes
  --json         the result as one line of JSON
`

type Options = Asked &
  Readonly<{
    mutants: boolean
    model: readonly Variant[] | null
    json: boolean
    jobs: number
    isSeedGiven: boolean
  }>

/** Null: wrong, or help was asked for. */
function read(args: readonly string[]): Options | 'help' | null {
  const number = { type: 'string' } as const
  const flag = { type: 'boolean', default: false } as const
  try {
    const { values } = parseArgs({
      args: [...args],
      options: {
        schedules: number,
        scenario: { type: 'string' },
        seed: number,
        jobs: number,
        mutants: flag,
        model: flag,
        large: flag,
        variant: { type: 'string' },
        json: flag,
        help: flag,
      },
    })
    const { mutants, json, scenario = null } = values
    const model = values.model ? variantsOf(values.variant, values.large) : null
    if (values.help) return 'help'
    const schedules = integer(
      values.schedules ?? String(mutants ? MUTANT_SCHEDULES_DEFAULT : SCHEDULES_DEFAULT),
    )
    const seed = integer(values.seed ?? '1')
    const jobs = integer(values.jobs ?? '1')
    if (jobs === null || jobs > JOBS_MAX) return null
    if (schedules === null || seed === null || seed + schedules - 1 > SEED_MAX) return null
    if (scenario !== null && !isScenario(scenario)) return null
    if (model === null ? values.large || values.variant !== undefined : model.length === 0)
      return null
    const isSeedGiven = values.seed !== undefined
    return { schedules, seed, scenario, mutants, model, json, jobs, isSeedGiven }
  } catch {
    // An option that there is not.
    return null
  }
}

function integer(text: string): number | null {
  const value = Number(text)
  return /^\d{1,10}$/.test(text) && value >= 1 && value <= SEED_MAX ? value : null
}

/** @returns the exit code. */
export async function main(
  args: readonly string[],
  say: (text: string) => void,
  complain: (text: string) => void,
): Promise<number> {
  const options = read(args)
  if (options === 'help') {
    say(USAGE)
    return 0
  }
  if (options === null) {
    complain(USAGE)
    return 2
  }
  if (options.model !== null) return searchAll(options.model, options.json, say)
  if (options.mutants) return judgeAll(options, say)
  const summary = await simulateOn(options.jobs, options)
  say(`${options.json ? JSON.stringify(summary) : await textOf(summary)}\n`)
  return summary.violations.length > 0 ? 1 : 0
}

async function judgeAll(
  { schedules, seed, scenario, json, jobs, isSeedGiven }: Options,
  say: (text: string) => void,
): Promise<number> {
  const { simulated, declared } = await nodeSideMutants()
  const wanted = [...MUTANTS, ...simulated].filter(
    (mutant) => scenario === null || mutant.scenario === scenario,
  )
  const seeds = { first: isSeedGiven ? seed : null, count: schedules }
  const elsewhere = scenario === null ? [...declared, ...ELSEWHERE] : []
  const verdicts = [
    ...(await judgeOn(jobs, wanted, seeds)),
    ...elsewhere.map(({ name, caught }) => ({ name, caught, seed: null, invariant: null })),
    ...(scenario === null ? bugsOfTheModel() : []),
  ]
  const caught = verdicts.filter((verdict) => verdict.caught !== false).length
  if (json) say(`${JSON.stringify({ mutants: verdicts })}\n`)
  else {
    say(`${verdicts.map(verdictLine).join('\n')}\n`)
    for (const { name, where } of elsewhere) say(`${name}: ${where}\n`)
    say(`${caught} of ${verdicts.length} caught\n`)
  }
  return caught === verdicts.length ? 0 : 1
}

/** Those that are too rare to be drawn: searched for in the exhaustive model. */
function bugsOfTheModel(): Verdict[] {
  return VARIANTS.filter(({ name }) => TOO_RARE.has(name)).map((variant) => {
    const { name, caught } = judgeVariant(variant)
    return { name, caught, seed: null, invariant: null }
  })
}

/** Empty: there is none of that name. */
function variantsOf(name: string | undefined, large: boolean): readonly Variant[] {
  if (name === undefined) return large ? LARGE_VARIANTS : VARIANTS
  return [...VARIANTS, ...LARGE_VARIANTS].filter((variant) => variant.name === name)
}

function searchAll(
  variants: readonly Variant[],
  json: boolean,
  say: (text: string) => void,
): number {
  const verdicts: ModelVerdict[] = []
  for (const variant of variants) {
    const verdict = judgeVariant(variant)
    verdicts.push(verdict)
    if (!json) say(`${modelText(verdict)}\n`)
  }
  if (json) say(`${JSON.stringify({ model: verdicts })}\n`)
  return verdicts.every(isAsExpected) ? 0 : 1
}
