/** The command line of the bench. */
import { parseArgs } from 'node:util'
import { GROUPS, type GroupName, PROFILES, type Profile } from './groups/index.ts'

export interface BenchOptions {
  readonly groups: readonly GroupName[]
  /** They were named one by one, so none of them may be left out. */
  readonly areNamed: boolean
  readonly profileName: 'full' | 'quick'
  readonly profile: Profile
  readonly json: boolean
  readonly peers: boolean
  readonly help: boolean
}

const RUNS_MIN = 1
const RUNS_MAX = 99
const SECONDS_MIN = 0.1
const SECONDS_MAX = 600

/** The message is for the user. */
export class UsageError extends Error {
  override readonly name = 'UsageError'
}

export const HELP: string = `npm run bench -- [options]

Holdfast beside hand-written locks and other lock libraries, on private servers, in one run.

  --quick           all groups in one to two minutes; without it the long profile
  --only <group>    one group; may be given several times. Groups: ${GROUPS.join(', ')}
  --json            one JSON text on stdout instead of tables
  --no-peers        hand-written locks and Holdfast only
  --runs <n>        runs of each group, ${RUNS_MIN} to ${RUNS_MAX} (quick: ${PROFILES.quick.runs}, else ${PROFILES.full.runs})
  --seconds <s>     length of one run of each group, ${SECONDS_MIN} to ${SECONDS_MAX}
  --help            this text

Exit codes: 0 it was measured, whatever the figures are; 1 somebody failed: two holders at once, a
lock that was not granted or not released, a library that could not be loaded; 2 wrong usage; 3 a
server is missing that a group of --only needs, or all of them are; 128 + n: ended by signal n.
Without --only, groups whose server is missing are left out.
`

/** @throws UsageError that names the option, the value and what is allowed. */
export function readOptions(args: readonly string[]): BenchOptions {
  const { values, positionals } = parse(args)
  if (positionals.length > 0) {
    throw new UsageError(`unexpected argument '${positionals[0]}'; a group is given by --only`)
  }
  const profileName = values.quick === true ? 'quick' : 'full'
  const base = PROFILES[profileName]
  const runs = numberIn('--runs', values.runs, RUNS_MIN, RUNS_MAX, true)
  const seconds = numberIn('--seconds', values.seconds, SECONDS_MIN, SECONDS_MAX, false)
  return {
    groups: groupsOf(values.only ?? []),
    areNamed: values.only !== undefined,
    profileName,
    profile: {
      ...base,
      ...(runs !== null && { runs, quorum: { ...base.quorum, runs } }),
      ...(seconds !== null && { runMs: sameForAll(seconds * 1_000) }),
    },
    json: values.json === true,
    peers: values['no-peers'] !== true,
    help: values.help === true,
  }
}

const OPTIONS = {
  quick: { type: 'boolean' },
  only: { type: 'string', multiple: true },
  json: { type: 'boolean' },
  'no-peers': { type: 'boolean' },
  runs: { type: 'string' },
  seconds: { type: 'string' },
  help: { type: 'boolean' },
} as const

/** Not the parser's own words: they name no option that there is, and their text changes with Node. */
function parse(args: readonly string[]) {
  const config = { args: [...args], allowPositionals: true, options: OPTIONS } as const
  for (const token of parseArgs({ ...config, strict: false, tokens: true }).tokens) {
    if (token.kind !== 'option') continue
    const { name, rawName, value } = token
    if (!Object.hasOwn(OPTIONS, name) || !rawName.startsWith('--')) {
      const allowed = Object.keys(OPTIONS).map((one) => `--${one}`)
      throw new UsageError(`there is no option '${rawName}'; allowed: ${allowed.join(', ')}`)
    }
    const takesValue = OPTIONS[name as keyof typeof OPTIONS].type === 'string'
    // Strict parsing, which follows, would refuse `--only --json` in words of its own.
    if (takesValue && (value === undefined || (value.startsWith('-') && !token.inlineValue))) {
      throw new UsageError(`${rawName}: its value is missing`)
    }
    if (!takesValue && value !== undefined) {
      throw new UsageError(`${rawName}: it takes no value, and '${value}' was given`)
    }
  }
  return parseArgs(config)
}

function groupsOf(wanted: readonly string[]): GroupName[] {
  for (const name of wanted) {
    if (!GROUPS.includes(name as GroupName)) {
      throw new UsageError(`--only: there is no group '${name}'; allowed: ${GROUPS.join(', ')}`)
    }
  }
  return GROUPS.filter((name) => wanted.length === 0 || wanted.includes(name))
}

function numberIn(
  option: string,
  text: string | undefined,
  min: number,
  max: number,
  isWhole: boolean,
): number | null {
  if (text === undefined) return null
  const value = /^\d+(?:\.\d+)?$/.test(text) ? Number(text) : Number.NaN
  const isRight = value >= min && value <= max && (!isWhole || Number.isInteger(value))
  if (isRight) return value
  const kind = isWhole ? 'a whole number' : 'a number'
  throw new UsageError(
    `${option}: '${text}' is not allowed; allowed: ${kind} from ${min} to ${max}`,
  )
}

function sameForAll(runMs: number): Profile['runMs'] {
  return Object.fromEntries(GROUPS.map((name) => [name, runMs])) as Profile['runMs']
}
