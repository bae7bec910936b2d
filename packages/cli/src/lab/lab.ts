/**
 * One run of the lab: servers up, scenarios one after another, report, servers down. Whatever ends
 * it, no server, no worker and no temporary folder stays: in the ordinary way they are ended in
 * order, and on a signal or an error when this process exits (servers/run-folder.ts).
 */
import { constants } from 'node:os'
import { CommanderError } from 'commander'
import { withoutSecrets } from '../quoted.ts'
import { within } from './addresses.ts'
import { type CalledAs, type LabOptions, labCommand, namesOf, replayCommand } from './args.ts'
import { currentCommit } from './commit.ts'
import { History } from './history.ts'
import { serverVersions, thisMachine } from './machine.ts'
import { jsonReport, labDocument, type PlannedResult, type RunInfo } from './report/json.ts'
import { ProgressBars } from './report/progress.ts'
import { recordObstacle, writeRecord } from './report/record-files.ts'
import { tableReport } from './report/table.ts'
import { minutes } from './report/text.ts'
import { type Progress, runScenario, type ScenarioResult } from './run.ts'
import { runTrials } from './run-trials.ts'
import type { Addresses } from './scenario.ts'
import { EMBEDDED } from './scenarios/embedded.ts'
import { sqliteDriver, whyNoSqlite } from './scenarios/ground/sqlite-driver.ts'
import { type KnownScenario, SCENARIOS } from './scenarios/index.ts'
import {
  openFolder,
  type ServerKind,
  startPostgres,
  startRedis,
  whatIsMissing,
} from './servers/index.ts'
import type { TrialPlan } from './trial.ts'

export const EXIT = { holds: 0, broken: 1, usage: 2, missing: 3 } as const

/** A claim that is broken and a run that says nothing are alike to a script: neither may pass. */
export function exitCodeOf(results: readonly Pick<ScenarioResult, 'verdict'>[]): number {
  return results.every(({ verdict }) => verdict === 'holds') ? EXIT.holds : EXIT.broken
}

/** A lane has three processes at most, with two connections each; a few are the lab's own. */
const CONNECTIONS_PER_LANE = 6
const CONNECTIONS_OWN = 20
const IN_PLACE = 'what is run instead is --embedded, on files of SQLite'
/** What the bare command may take; the sizes of the quick profile are chosen for it. */
const QUICK_MS_MAX = 300_000

/** The whole command, from its arguments to its exit code. */
export async function labMain(args: readonly string[]): Promise<number> {
  let exitCode: number = EXIT.holds
  const command = labCommand(async (options) => {
    exitCode = await runLab(options, 'npm run -s lab --')
  })
  command.name('npm run lab --').exitOverride()
  try {
    await command.parseAsync(args, { from: 'user' })
    return exitCode
  } catch (error) {
    return usageExitCode(error)
  }
}

/** Commander has said what is wrong, except where the check was ours. Other errors go on. */
export function usageExitCode(error: unknown): number {
  if (!(error instanceof CommanderError)) throw error
  if (error.code.endsWith('.usage')) process.stderr.write(`${withoutSecrets(error.message)}\n`)
  return error.exitCode === 0 ? EXIT.holds : EXIT.usage
}

/**
 * @param known What the names in the options stand for; others than the lab's own are for its tests.
 * @returns the exit code; see `--help`.
 */
export async function runLab(
  options: LabOptions,
  calledAs: CalledAs,
  known: readonly KnownScenario[] = options.isEmbedded ? EMBEDDED : SCENARIOS,
): Promise<number> {
  const chosen = options.scenarios.flatMap((name) =>
    known.filter(({ scenario }) => scenario.name === name),
  )
  const kinds = new Set(chosen.flatMap(({ scenario }) => scenario.servers))
  const missing = whatIsMissing(kinds) ?? (options.isEmbedded ? whyNoSqlite() : null)
  if (missing !== null) {
    const instead = options.isEmbedded || known !== SCENARIOS ? null : embeddedInstead(options)
    const parts = [missing, ...(instead === null ? [] : [IN_PLACE, ...leftOut(options, instead)])]
    say(parts.join('; '))
    return instead === null ? EXIT.missing : runLab(instead, calledAs)
  }
  if (options.isEmbedded) for (const text of leftOut(options, options)) say(text)
  const beganAtMs = performance.now()
  const run = await runInfo(options, calledAs, [...kinds, ...ofArms(chosen)])
  const obstacle = options.record === null ? null : recordObstacle(run.commit)
  if (obstacle !== null) {
    say(obstacle)
    return EXIT.usage
  }
  const stop = new StopOnSignal()
  const stores = await openStores(kinds, options)
  try {
    const results = await runAll(chosen, options, run, stores.addresses, stop)
    const document = labDocument(run, Math.round(performance.now() - beganAtMs), results)
    if (options.record !== null) writeRecord(options.record, document)
    if (options.json) process.stdout.write(`${jsonReport(document)}\n`)
    else process.stdout.write(closingLines(options, run, document.elapsedMs))
    return exitCodeOf(results)
  } finally {
    await stores.close()
    stop.end()
  }
}

/** What some arms start themselves; those that lack one are skipped. */
function ofArms(chosen: readonly KnownScenario[]): ServerKind[] {
  const kinds = chosen.flatMap(({ scenario }) =>
    scenario.kind === 'trials' ? scenario.arms.flatMap((arm) => arm.servers ?? []) : [],
  )
  return [...new Set(kinds)].filter((kind) => whatIsMissing([kind]) === null)
}

async function runInfo(
  options: LabOptions,
  calledAs: CalledAs,
  kinds: Iterable<ServerKind>,
): Promise<RunInfo> {
  return {
    commit: await currentCommit(),
    seed: options.seed,
    profile: options.profile,
    rounds: options.rounds,
    pause: options.pause.name,
    replay: replayCommand(options, calledAs),
    stores: options.isEmbedded ? 'embedded' : 'servers',
    node: process.version,
    startedAt: new Date().toISOString(),
    machine: thisMachine(),
    servers: await serverVersions(kinds),
    sqlite: options.isEmbedded ? sqliteInfo() : null,
  }
}

function closingLines(options: LabOptions, { replay }: RunInfo, elapsedMs: number): string {
  const { record, isQuickOfAll } = options
  const limit = isQuickOfAll ? `, of ${minutes(QUICK_MS_MAX)} at most on two free cores` : ''
  const lines = [`time used: ${minutes(elapsedMs)}${limit}`, `replay: ${replay}`]
  if (record !== null) lines.push(`record: ${record}`)
  return lines.map((line) => `${line}\n`).join('')
}

async function runAll(
  chosen: readonly KnownScenario[],
  options: LabOptions,
  run: RunInfo,
  addresses: Addresses,
  stop: StopOnSignal,
): Promise<readonly PlannedResult[]> {
  const { rounds, seed, pause, lanes } = options
  const history = new History(options.history)
  const results: PlannedResult[] = []
  if (!options.json) process.stdout.write(`${headline(options, run)}\n\n`)
  try {
    for (const { scenario, module } of chosen) {
      const fault = scenario.kind === 'rounds' ? { fault: scenario.fault } : {}
      history.writeLines([{ run: { ...run, scenario: scenario.name, ...fault } }])
      const arms = scenario.arms.map(({ name }) => name)
      const plan = planOf(scenario, rounds)
      const bars = new ProgressBars(scenario.name, arms, plan.rounds * plan.size)
      stop.onSignal = () => bars.stop()
      const onProgress = (progress: Progress): void => bars.update(progress)
      const own = within(addresses, scenario.name)
      const common = { module, addresses: own, rounds, seed, history, onProgress }
      const running =
        scenario.kind === 'rounds'
          ? runScenario({ ...common, scenario, lanes, kind: pause })
          : runTrials({ ...common, scenario })
      const result = { ...(await running.finally(() => bars.stop())), rounds: plan.rounds }
      results.push(result)
      for (const error of result.errors) process.stderr.write(`${scenario.name}: ${error}\n`)
      history.forget()
      if (options.json) continue
      process.stdout.write(`${tableReport(result, scenario.metrics, process.stdout.columns)}\n\n`)
    }
    return results
  } finally {
    history.close()
  }
}

/** A scenario of rounds does as many as it is told; a trial says itself what that means for it. */
function planOf(scenario: KnownScenario['scenario'], rounds: number): TrialPlan {
  return scenario.kind === 'rounds' ? { rounds, size: 1 } : scenario.plan(rounds)
}

function headline(options: LabOptions, { commit, node }: RunInfo): string {
  const { profile, rounds, seed, pause, scenarios, isEmbedded } = options
  return (
    `profile ${profile}${isEmbedded ? ', without servers' : ''}: ${scenarios.join(', ')}; ${rounds} rounds of each arm; ` +
    `pause by ${pause.name}; seed ${seed}; commit ${commit}; Node ${node}`
  )
}

/** The same run on files; null where that would be less, or another record, than was asked for. */
function embeddedInstead(options: LabOptions): LabOptions | null {
  const able = namesOf(EMBEDDED)
  const scenarios = options.scenarios.filter((name) => able.includes(name))
  const isLess = options.isNamed && scenarios.length < options.scenarios.length
  if (isLess || options.record !== null) return null
  // What is left out has been said then.
  return { ...options, scenarios, isEmbedded: true, isNamed: true }
}

/** Of a run whose scenarios were not named: those that it has not. */
function leftOut({ isNamed }: LabOptions, { scenarios }: LabOptions): string[] {
  const names = namesOf(SCENARIOS).filter((name) => !scenarios.includes(name))
  return isNamed ? [] : [`left out, for want of servers: ${names.join(', ')}`]
}

function sqliteInfo(): { driver: string; version: string } {
  const { name, version } = sqliteDriver()
  return { driver: name, version }
}

function say(text: string): void {
  process.stderr.write(`holdfast lab: ${text}\n`)
}

/** What the run works on, opened for all scenarios. */
interface OpenStores {
  readonly addresses: Addresses
  close(): Promise<void>
}

async function openStores(
  kinds: ReadonlySet<ServerKind>,
  { lanes, isEmbedded }: LabOptions,
): Promise<OpenStores> {
  if (isEmbedded) {
    const { path, remove } = await openFolder('sqlite')
    return { addresses: { sqlite: { folder: path } }, close: async () => remove() }
  }
  const maxConnections = `${lanes * CONNECTIONS_PER_LANE + CONNECTIONS_OWN}`
  const [redis, postgres] = await Promise.all([
    kinds.has('redis') ? startRedis() : undefined,
    kinds.has('postgres')
      ? startPostgres({ settings: { max_connections: maxConnections } })
      : undefined,
  ])
  const addresses = {
    ...(redis && { redis: { host: '127.0.0.1', port: redis.port } }),
    ...(postgres && { postgres: postgres.connection }),
  }
  return {
    addresses,
    close: async () => void (await Promise.all([redis?.stop(), postgres?.stop()])),
  }
}

const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const

/**
 * Ends this process as a shell expects it of one that a signal ended, with exit code 128 + n.
 * `process.exit` is what ends the servers and the workers, so it is all that is needed here.
 */
class StopOnSignal {
  onSignal: () => void = () => {}
  readonly #listeners = SIGNALS.map((signal) => {
    const listener = (): void => {
      this.onSignal()
      process.stderr.write(`holdfast lab: ended by ${signal}\n`)
      process.exit(128 + constants.signals[signal])
    }
    process.on(signal, listener)
    return { signal, listener }
  })

  end(): void {
    for (const { signal, listener } of this.#listeners) process.removeListener(signal, listener)
  }
}
