/** One run of the bench, from its arguments to its exit code. */
import { availableParallelism, constants, loadavg } from 'node:os'
import { currentCommit } from '../../packages/cli/dist/lab/commit.js'
import { MissingServerError } from '../../packages/cli/dist/lab/servers/index.js'
import { MissingDriverError } from './contestants/sqlite-driver.ts'
import { extentOf, type GroupName, type Profile, prepare } from './groups/index.ts'
import { measureQuorum } from './groups/redlock.ts'
import { measure } from './measure.ts'
import { type BenchOptions, HELP, readOptions, UsageError } from './options.ts'
import { barsReport, type GroupResult, groupReport, jsonReport } from './report.ts'
import { rowsOf } from './rows.ts'

const EXIT = { measured: 0, failed: 1, usage: 2, missingServer: 3 } as const

const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const

/** @returns the exit code; see `--help`. */
export async function bench(args: readonly string[], env: NodeJS.ProcessEnv): Promise<number> {
  let options: BenchOptions
  try {
    options = readOptions(args)
  } catch (error) {
    if (!(error instanceof UsageError)) throw error
    say(error.message)
    return EXIT.usage
  }
  if (options.help) {
    await write(HELP)
    return EXIT.measured
  }
  // Exiting is what ends the servers.
  for (const signal of SIGNALS) {
    process.once(signal, () => process.exit(128 + constants.signals[signal]))
  }
  try {
    return await run(options, env['HOLDFAST_BENCH_NO_PEERS'] ?? null)
  } catch (error) {
    if (!isMissing(error)) throw error
    say(error.message)
    return EXIT.missingServer
  }
}

function isMissing(error: unknown): error is MissingServerError | MissingDriverError {
  return error instanceof MissingServerError || error instanceof MissingDriverError
}

/** @param lack Why the other libraries are not there; null if they are. */
async function run(options: BenchOptions, lack: string | null): Promise<number> {
  const { profileName, json } = options
  const commit = await currentCommit()
  const loadBefore = loadavg()[0] ?? 0
  const head = { commit, node: process.version, profile: profileName, loadBefore }
  const peersLeftOut = whyNoPeers(options, lack)
  if (!json) {
    const load = `load ${loadBefore.toFixed(2)} on ${availableParallelism()} cores`
    await write(`profile ${profileName}; commit ${commit}; Node ${process.version}; ${load}\n`)
    if (peersLeftOut !== null) await write(`other libraries are left out: ${peersLeftOut}\n`)
  }
  const results: GroupResult[] = []
  const groupsLeftOut: Record<string, string> = {}
  for (const group of options.groups) {
    const result = await runIfPossible(group, options, peersLeftOut === null)
    if ('lack' in result) {
      groupsLeftOut[group] = result.lack
      if (!json) await write(`\n${group} is left out: ${result.lack}\n`)
      continue
    }
    results.push(result)
    if (!json) await write(`\n${groupReport(result)}\n`)
  }
  if (json) await write(`${jsonReport({ ...head, peersLeftOut, groupsLeftOut }, results)}\n`)
  else await write(`\n${barsReport(results)}\n`)
  return results.length === 0 ? EXIT.missingServer : exitCodeOf(results)
}

/** What a group lacks ends the run where the group was asked for by name. */
async function runIfPossible(
  group: GroupName,
  options: BenchOptions,
  withPeers: boolean,
): Promise<GroupResult | { readonly lack: string }> {
  try {
    return await runGroup(group, options, withPeers)
  } catch (error) {
    if (options.areNamed || !isMissing(error)) throw error
    return { lack: error.message }
  }
}

/** A figure is no failure, however bad; a lock that did not lock is one. */
export function exitCodeOf(results: readonly Pick<GroupResult, 'failures'>[]): number {
  return results.some(({ failures }) => failures.length > 0) ? EXIT.failed : EXIT.measured
}

function whyNoPeers({ peers }: BenchOptions, lack: string | null): string | null {
  return peers ? lack : '--no-peers'
}

async function runGroup(
  group: GroupName,
  { profile }: BenchOptions,
  withPeers: boolean,
): Promise<GroupResult> {
  const beganAtMs = performance.now()
  say(`${group}: begins`)
  try {
    return await (group === 'redlock'
      ? runQuorum(profile, withPeers)
      : runEntries(group, profile, withPeers))
  } finally {
    say(`${group}: took ${((performance.now() - beganAtMs) / 1_000).toFixed(1)} s`)
  }
}

async function runQuorum(profile: Profile, withPeers: boolean): Promise<GroupResult> {
  const { quorum, runMs } = profile
  const result = await measureQuorum({ ...quorum, runMs: runMs.redlock }, withPeers, (number) => {
    say(`redlock: run ${number} of ${quorum.runs}`)
  })
  return { group: 'redlock', ...result }
}

async function runEntries(
  group: Exclude<GroupName, 'redlock'>,
  profile: Profile,
  withPeers: boolean,
): Promise<GroupResult> {
  const { entries, failures, close } = await prepare(group, profile, withPeers)
  try {
    const extent = extentOf(group, profile)
    const outcome = await measure(entries, extent, (number) => {
      say(`${group}: run ${number} of ${extent.runs}`)
    })
    await Promise.allSettled(entries.map((entry) => entry.close()))
    const rows = rowsOf(group, outcome.measured)
    return { group, rows, failures: [...failures, ...outcome.failures], notes: [] }
  } finally {
    await close()
  }
}

function say(line: string): void {
  process.stderr.write(`holdfast bench: ${line}\n`)
}

/** Resolves when it is out, because the process exits right after. */
function write(text: string): Promise<void> {
  return new Promise((resolve) => {
    process.stdout.write(text, () => resolve())
  })
}
