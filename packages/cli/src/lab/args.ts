/**
 * The lab's command line. A run is described by its options alone: the replay command is made of
 * them, and the same options always lead to the same draws.
 */
import { randomInt } from 'node:crypto'
import { accessSync, constants, statSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { dirname } from 'node:path'
import { Command, CommanderError, InvalidArgumentError, Option } from 'commander'
import { withoutSecrets } from '../quoted.ts'
import { LANES_DEFAULT, LANES_MAX, PAUSE_KINDS, type PauseKind, pauseKind } from './faults/index.ts'
import { isRecordPath, jsonPathOf } from './report/record-files.ts'
import { EMBEDDED } from './scenarios/embedded.ts'
import { type KnownScenario, SCENARIOS } from './scenarios/index.ts'

export type Profile = 'quick' | 'full'

export interface LabOptions {
  /** Names, in the order in which they run. */
  readonly scenarios: readonly string[]
  readonly profile: Profile
  readonly rounds: number
  readonly seed: number
  readonly pause: PauseKind
  readonly lanes: number
  readonly json: boolean
  readonly history: string | null
  /** The page to write, with a document of the same name beside it. */
  readonly record: string | null
  /** Nothing was chosen that would make it smaller or larger: it is to end within five minutes. */
  readonly isQuickOfAll: boolean
  /** On files of SQLite instead of servers. */
  readonly isEmbedded: boolean
  /** Which ones was said, so that none of them may be left out. */
  readonly isNamed: boolean
}

/** Quick: all within five minutes on two cores. Full, for a record: about a quarter of an hour. */
export const ROUNDS: Readonly<Record<Profile, number>> = { quick: 100, full: 400 }
const ROUNDS_MAX = 100_000
const SEED_MAX = 2 ** 32 - 1

/** How the command is called where it was called, for the replay command. */
export type CalledAs = 'npm run -s lab --' | 'holdfast lab'

interface RawOptions {
  readonly embedded?: true
  readonly rounds?: number
  readonly seed?: number
  readonly json?: true
  readonly pause: string
  readonly lanes?: number
  readonly quick?: true
  readonly full?: true
  readonly history?: string
  readonly record?: string
}

/** @param act Gets the options when they are right; wrong ones are a {@link CommanderError}. */
export function labCommand(act: (options: LabOptions) => Promise<void>): Command {
  const command = new Command('lab').configureOutput({
    outputError: (text, write) => write(withoutSecrets(text)),
  })
  command
    .description(
      'Experiments with locks on real stores, with real worker processes and real faults.',
    )
    .argument('[scenario...]', `which ones, of: ${namesOf(SCENARIOS).join(', ')} (default: all)`)
    .option('--embedded', 'without servers: locks and data in files of SQLite; see below')
    .option('--rounds <n>', `rounds of each arm, 1 to ${ROUNDS_MAX}`, wholeNumber(1, ROUNDS_MAX))
    .option('--seed <n>', `0 to ${SEED_MAX}; drawn if not given`, wholeNumber(0, SEED_MAX))
    .option('--json', 'one JSON text on stdout instead of tables')
    .addOption(
      new Option('--pause <kind>', 'how a process is made to pause')
        .choices(PAUSE_KINDS.map(({ name }) => name))
        .default(PAUSE_KINDS[0]?.name),
    )
    .option('--lanes <n>', `rounds at once, 1 to ${LANES_MAX}`, wholeNumber(1, LANES_MAX))
    .addOption(new Option('--quick', `${ROUNDS.quick} rounds of each arm (default)`))
    .addOption(new Option('--full', `${ROUNDS.full} rounds of each arm`).conflicts('quick'))
    .option('--history <file>', 'write every operation into a file, one JSON text a line')
    .option('--record <file.md>', 'write a page about the run, and its JSON beside it; see below')
    .addHelpText('after', helpText())
    .action(async (names: string[], raw: RawOptions) => act(checkOptions(names, raw)))
  return command
}

/** The command that runs the same again: same draws, same rounds, same faults. */
export function replayCommand(options: LabOptions, calledAs: CalledAs): string {
  const { scenarios, rounds, seed, pause, lanes, isEmbedded } = options
  const what = [...(isEmbedded ? ['--embedded'] : []), ...scenarios].join(' ')
  const flags = `--rounds ${rounds} --seed ${seed} --pause ${pause.name} --lanes ${lanes}`
  return `${calledAs} ${what} ${flags}`
}

function checkOptions(names: readonly string[], raw: RawOptions): LabOptions {
  const isEmbedded = raw.embedded === true
  const known = namesOf(isEmbedded ? EMBEDDED : SCENARIOS)
  for (const name of names) checkName(name, known)
  const pause = pauseKind(raw.pause)
  const lanesMax = pause.lanesMax(availableParallelism())
  if (raw.lanes !== undefined && raw.lanes > lanesMax) {
    const allowed = `with --pause ${pause.name} on this machine: 1 to ${lanesMax}`
    throw usageError(`option '--lanes <n>' argument '${raw.lanes}' is not allowed; ${allowed}`)
  }
  checkPaths(raw)
  const profile = raw.full === true ? 'full' : 'quick'
  return {
    // Twice the same name is once: it would be the same run on the same rows.
    scenarios: names.length === 0 ? known : [...new Set(names)],
    profile,
    rounds: raw.rounds ?? ROUNDS[profile],
    seed: raw.seed ?? randomInt(SEED_MAX + 1),
    pause,
    lanes: raw.lanes ?? Math.min(LANES_DEFAULT, lanesMax),
    json: raw.json === true,
    history: raw.history ?? null,
    record: raw.record ?? null,
    ...{ isEmbedded, isNamed: names.length > 0 },
    isQuickOfAll: names.length === 0 && profile === 'quick' && raw.rounds === undefined,
  }
}

export function namesOf(scenarios: readonly KnownScenario[]): string[] {
  return scenarios.map(({ scenario }) => scenario.name)
}

function checkName(name: string, known: readonly string[]): void {
  if (known.includes(name)) return
  if (!namesOf(SCENARIOS).includes(name)) {
    throw usageError(`unknown scenario '${name}'; known: ${known.join(', ')}`)
  }
  throw usageError(`scenario '${name}' needs servers; with --embedded: ${known.join(', ')}`)
}

function checkPaths({ history, record }: RawOptions): void {
  const writable = 'allowed: a file in a folder that exists and can be written'
  if (history !== undefined && !isWritable(history)) {
    throw usageError(`option '--history <file>' argument '${history}' is invalid; ${writable}`)
  }
  if (record === undefined) return
  const allowed = `${writable}, its name ending in .md`
  if (!isRecordPath(record) || !isWritable(record) || !isWritable(jsonPathOf(record))) {
    throw usageError(`option '--record <file.md>' argument '${record}' is invalid; ${allowed}`)
  }
}

function usageError(message: string): CommanderError {
  return new CommanderError(2, 'lab.usage', `error: ${message}`)
}

function wholeNumber(min: number, max: number): (text: string) => number {
  return (text) => {
    const value = Number(text)
    if (!/^\d{1,12}$/.test(text) || value < min || value > max) {
      throw new InvalidArgumentError(`Allowed: a whole number from ${min} to ${max}.`)
    }
    return value
  }
}

function isWritable(path: string): boolean {
  try {
    const found = statSync(path, { throwIfNoEntry: false })
    if (found?.isDirectory() === true) return false
    accessSync(found === undefined ? dirname(path) : path, constants.W_OK)
    return true
  } catch {
    return false
  }
}

function helpText(): string {
  const scenarios = SCENARIOS.map(({ scenario: { name, claim, arms } }) =>
    [`  ${name}`, `    ${claim}`, `    arms: ${arms.map((arm) => arm.name).join('; ')}`].join('\n'),
  )
  const pauses = PAUSE_KINDS.map(({ name, description }) => `  ${name.padEnd(8)} ${description}`)
  return `
Scenarios:
${scenarios.join('\n')}

Pauses:
${pauses.join('\n')}

The seed decides what is drawn: lock names, the order of the arms in each lane, small delays.
Everything else happens in real time and differs from run to run.

Verdicts: an arm with protection holds when its claim was true in every round. An arm without must
fail in every round; if it does not fail at all, the fault did not happen and the experiment is void.

With --embedded: ${namesOf(EMBEDDED).join(', ')}.
The same arms and the same judges; locks and data are in files of SQLite in a temporary folder, and no
server is started. A holder that pauses inside of a transaction keeps the file from the next one until
its pause is over: no server ends that transaction. Where the servers cannot be had, this is what is
run, and one line says so.

A record names the commit that was run, so --record is refused where files differ from it. The page in
the repository is written by: npm run lab -- --full --record docs/lab-record.md
A run with --embedded needs a page of its own.

Exit codes: 0 all claims hold; 1 one is broken, or void; 2 wrong usage; 3 a server is missing, or a driver of SQLite.
128 + n: ended by signal n.`
}
