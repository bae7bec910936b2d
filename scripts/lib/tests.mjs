/**
 * Runs the tests: everything under this Node, then what touches Node most under each other version
 * that is supported.
 *
 * Arguments go to vitest, and whoever gives some wants one run, so there is no second. With
 * HOLDFAST_TEST_REPORTS=<folder> each run leaves its results there as `<name>.json`.
 */
import { mkdirSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import {
  findForOtherNode,
  hasNodeSqlite,
  NotToBeHadError,
  whyNotLoaded,
} from './better-sqlite3.mjs'
import { isSignalled, runBeside, runInForeground } from './children.mjs'
import { findOtherNode } from './other-node.mjs'
import { SetupError, say } from './progress.mjs'

const VITEST = 'node_modules/vitest/vitest.mjs'
/** The lines of Node that are alive, and the next. */
export const OTHER_NODES = [22, 24, 26]
/**
 * What touches Node; types, contents of tarballs and the lab's processes are the same under each. Of
 * the stores one lane each: three versions of Node with all lanes would double the time of the gate.
 */
const OTHER_NODE_TESTS = [
  'packages/holdfast/test/unit',
  'packages/holdfast/test/conformance/memory.test',
  'packages/holdfast/test/conformance/sqlite',
  'packages/holdfast/test/package/examples',
  'packages/holdfast/test/package/install',
  'packages/holdfast/test/package/node-test',
]
const OTHER_NODE_TESTS_WITH_SERVERS = [
  // The suite by one client of each family.
  'packages/holdfast/test/conformance/redis-proxied.test',
  'packages/holdfast/test/conformance/postgres-guard.test',
]
/** Files at a time in each of those runs, which are three at once. */
const OTHER_NODE_WORKERS = '3'
/** Simulated, searched, or about texts, so the same under each; and the dearest that need no server. */
const NOT_UNDER_OTHER_NODES = [
  'packages/holdfast/test/unit/sim/**',
  'packages/holdfast/test/unit/tidy/**',
  'packages/holdfast/test/unit/docs/**',
  'packages/holdfast/test/unit/redlock/admission-table.test.ts',
]
/** Need no server, so they are what is left when there is none; of the other projects only these files. */
const SERVERLESS_PROJECTS = ['unit', 'package', 'scripts']
const SERVERLESS_TESTS = [
  'packages/holdfast/test/conformance/memory.test',
  'packages/holdfast/test/conformance/sqlite',
  'packages/holdfast/test/faults/sqlite',
  'packages/holdfast/test/faults/connect-sqlite',
  'packages/cli/test/lab/embedded',
]

/** @returns the exit code: that of the first run that failed. */
export async function runTests({ root, args, env, missing }) {
  const isStrict = env.HOLDFAST_REQUIRE_SERVERS === '1'
  const lacksServers = Object.keys(missing).length > 0
  if (lacksServers && isStrict) throw new SetupError('servers are missing and required here')

  const vitestArgs = args.filter((arg) => arg !== '--no-other-nodes')
  const projects = lacksServers && vitestArgs.length === 0 ? SERVERLESS_PROJECTS : []
  const isServerless = projects.length > 0
  if (isServerless) {
    const left = [...projects, ...SERVERLESS_TESTS]
    say(`without servers only these are run: ${left.join(', ')}`)
  }
  const ownMajor = Number(process.versions.node.split('.')[0])
  const majors = args.length > 0 ? [] : OTHER_NODES.filter((other) => other !== ownMajor)
  const prepared = prepareOtherNodes(root, majors)
  const sqlite = ownSqlite(root)
  const codes = [isStrict && sqlite.isFailure ? 1 : 0]
  codes.push(
    await runVitest({
      name: `node${ownMajor}`,
      root,
      env: { ...env, ...sqlite.env },
      args: [...only(projects), ...vitestArgs],
    }),
  )
  if (isServerless && !isSignalled()) {
    const name = `node${ownMajor}-files`
    codes.push(
      await runVitest({ name, root, env: { ...env, ...sqlite.env }, args: SERVERLESS_TESTS }),
    )
  }
  // At once: each of them waits for two thirds of its time.
  const others = Array.from(prepared, async ([major, preparing]) => {
    const ready = await preparing
    if (isSignalled()) return 0
    return runUnderOtherNode(ready, { major, root, env, lacksServers, isStrict })
  })
  codes.push(...(await Promise.all(others)))
  return codes.find((code) => code !== 0) ?? 0
}

/** What the tests of SQLite have under this Node; a line says what they lack. */
function ownSqlite(root) {
  const why = whyNotLoaded(root)
  if (why === null) return { isFailure: false, env: {} }
  const isFailure = !(why instanceof NotToBeHadError)
  if (hasNodeSqlite()) {
    say(`SQLite is tested with node:sqlite alone: ${why.message}`)
    return { isFailure, env: {} }
  }
  say(`SQLite is not tested under Node ${process.version}, which has none itself: ${why.message}`)
  return { isFailure, env: { HOLDFAST_NO_SQLITE: why.message } }
}

/**
 * What the other versions need is fetched and compiled while this one's tests run: most of their time
 * is spent waiting, and a compiler needs a minute for each. One after another, for one core.
 *
 * @returns Major to the promise of what was made for it, which does not reject.
 */
function prepareOtherNodes(root, majors) {
  let last = Promise.resolve()
  const prepared = new Map()
  for (const major of majors) {
    last = last.then(() => prepareOtherNode(root, major)).catch((error) => ({ error }))
    prepared.set(major, last)
  }
  return prepared
}

async function prepareOtherNode(root, major) {
  const bin = await findOtherNode(major)
  try {
    return { bin, sqlite: await findForOtherNode({ root, major, bin }) }
  } catch (error) {
    if (!(error instanceof SetupError)) throw error
    return { bin, lack: error }
  }
}

async function runUnderOtherNode(prepared, { major, root, env, lacksServers, isStrict }) {
  const { error, bin, sqlite, lack } = prepared
  if (error !== undefined) {
    if (!(error instanceof SetupError)) throw error
    say(`the tests do not run under Node ${major}: ${error.message}`)
    return isStrict ? 1 : 0
  }
  if (lack !== undefined) {
    say(`SQLite is tested with node:sqlite alone under Node ${major}: ${lack.message}`)
  }
  const tests = [...OTHER_NODE_TESTS, ...(lacksServers ? [] : OTHER_NODE_TESTS_WITH_SERVERS)]
  say(`once more under Node ${major}: ${tests.join(', ')}`)
  // First in PATH, so that programs which the tests start, npm among them, run under it too.
  const path = [bin, env.PATH].filter(Boolean).join(delimiter)
  const code = await runVitest({
    name: `node${major}`,
    root,
    env: {
      ...env,
      PATH: path,
      HOLDFAST_TEST_WORKERS: OTHER_NODE_WORKERS,
      ...(sqlite && { HOLDFAST_BETTER_SQLITE3: sqlite }),
    },
    args: [...tests, ...NOT_UNDER_OTHER_NODES.flatMap((pattern) => ['--exclude', pattern])],
    node: join(bin, 'node'),
    isOneOfSome: true,
  })
  const isFailure = isStrict && lack !== undefined && !(lack instanceof NotToBeHadError)
  return code === 0 && isFailure ? 1 : code
}

function only(projects) {
  return projects.flatMap((project) => ['--project', project])
}

function runVitest({ name, root, env, args, node = process.execPath, isOneOfSome = false }) {
  const reports = env.HOLDFAST_TEST_REPORTS
  const reporting = []
  // Whoever asks for a reporter gets that one alone.
  if (!args.some((arg) => arg.startsWith('--reporter'))) {
    reporting.push('--reporter=default', '--reporter=./scripts/lib/skip-reporter.mjs')
  }
  if (reports) {
    mkdirSync(reports, { recursive: true })
    reporting.push('--reporter=json')
    reporting.push(`--outputFile.json=${join(reports, `${name}.json`)}`)
  }
  // vitest sets NODE_ENV itself, unless it is set: `production` changes what packages load.
  const { NODE_ENV, ...rest } = env
  const options = { cwd: root, env: rest }
  const vitest = [VITEST, 'run', ...args, ...reporting]
  return isOneOfSome
    ? runBeside(name, node, vitest, options)
    : runInForeground(node, vitest, options)
}
