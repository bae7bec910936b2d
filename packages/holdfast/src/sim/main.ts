/**
 * `npm run sim -- [--schedules n] [--scenario s] [--seed n] [--jobs n] [--mutants] [--json]`
 * `npm run sim -- --model [--variant v] [--large] [--json]`
 *
 * Exit codes: 0 nothing is broken, and with `--mutants` or `--model` every bug was caught; 1 an invariant
 * is broken, or a bug was not caught; 2 wrong usage. stdout has the result alone.
 */
import { type ParseArgsConfig, parseArgs } from 'node:util'
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

/** @throws WrongUsage naming the first option that is wrong, its value and what is allowed. */
function read(args: readonly string[]): Options | 'help' {
  const number = { type: 'string' } as const
  const flag = { type: 'boolean', default: false } as const
  const { values } = parsed(
    {
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
    args,
  )
  if (values.help) return 'help'
  const { mutants, json, scenario = null } = values
  const countDefault = mutants ? MUTANT_SCHEDULES_DEFAULT : SCHEDULES_DEFAULT
  const schedules = integer('schedules', values.schedules ?? String(countDefault), SEED_MAX)
  const seed = integer('seed', values.seed ?? '1', SEED_MAX - schedules + 1)
  const jobs = integer('jobs', values.jobs ?? '1', JOBS_MAX)
  if (scenario !== null && !isScenario(scenario)) {
    throw wrong('scenario', scenario, SCENARIO_NAMES.join(', '))
  }
  return {
    ...{ schedules, seed, scenario, mutants, json, jobs },
    model: readModel(values),
    isSeedGiven: values.seed !== undefined,
  }
}

function readModel({
  model,
  large,
  variant,
}: Readonly<{ model: boolean; large: boolean; variant?: string | undefined }>):
  | readonly Variant[]
  | null {
  if (!model) {
    if (large) throw wrong('large', 'given', 'beside --model')
    if (variant !== undefined) throw wrong('variant', variant, 'beside --model')
    return null
  }
  const chosen = variantsOf(variant, large)
  if (chosen.length > 0) return chosen
  throw wrong(
    'variant',
    String(variant),
    [...VARIANTS, ...LARGE_VARIANTS].map(({ name }) => name).join(', '),
  )
}

class WrongUsage extends Error {}

function wrong(option: string, value: string, allowed: string): WrongUsage {
  return new WrongUsage(`--${option} is ${value}, allowed: ${allowed}`)
}

function parsed<T extends NonNullable<ParseArgsConfig['options']>>(
  options: T,
  args: readonly string[],
) {
  try {
    return parseArgs({ args: [...args], options })
  } catch (error) {
    // An option that there is not, or a value that is missing: Node's words name it, with advice below.
    const [words = ''] = String(error instanceof Error ? error.message : error).split('\n')
    throw new WrongUsage(words)
  }
}

function integer(option: string, text: string, max: number): number {
  const value = Number(text)
  if (/^\d{1,10}$/.test(text) && value >= 1 && value <= max) return value
  throw wrong(option, text, `a whole number from 1 to ${max}`)
}

/** @returns the exit code. */
export async function main(
  args: readonly string[],
  say: (text: string) => void,
  complain: (text: string) => void,
): Promise<number> {
  let options: Options | 'help'
  try {
    options = read(args)
  } catch (error) {
    if (!(error instanceof WrongUsage)) throw error
    complain(`${error.message}\n${USAGE}`)
    return 2
  }
  if (options === 'help') {
    say(USAGE)
    return 0
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
