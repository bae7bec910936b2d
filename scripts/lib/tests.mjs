/**
 * Runs the tests: everything under this Node, then what touches Node most under Node 22.
 *
 * Arguments go to vitest, and whoever gives some wants one run, so there is no second. With
 * HOLDFAST_TEST_REPORTS=<folder> each run leaves its results there as `<name>.json`.
 */
import { mkdirSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { runInForeground } from './children.mjs'
import { SetupError, say } from './progress.mjs'
import { findSecondNode } from './second-node.mjs'

const VITEST = 'node_modules/vitest/vitest.mjs'
const SECOND_NODE_PROJECTS = ['unit', 'conformance', 'package']
/** Need no server, so they are what is left when there is none. */
const SERVERLESS_PROJECTS = ['unit', 'package', 'scripts']

/** @returns the exit code: that of the first run that failed. */
export async function runTests({ root, args, env, missing }) {
  const isStrict = env.HOLDFAST_REQUIRE_SERVERS === '1'
  const lacksServers = Object.keys(missing).length > 0
  if (lacksServers && isStrict) throw new SetupError('servers are missing and required here')

  const vitestArgs = args.filter((arg) => arg !== '--no-node22')
  const projects = lacksServers && vitestArgs.length === 0 ? SERVERLESS_PROJECTS : []
  if (projects.length > 0) say(`without servers only these are run: ${projects.join(', ')}`)
  const first = await runVitest({
    name: 'node20',
    root,
    env,
    args: [...only(projects), ...vitestArgs],
  })
  if (args.length > 0) return first

  const second = await runUnderSecondNode({ root, env, lacksServers, isStrict })
  return first === 0 ? second : first
}

async function runUnderSecondNode({ root, env, lacksServers, isStrict }) {
  let bin
  try {
    bin = await findSecondNode()
  } catch (error) {
    if (!(error instanceof SetupError)) throw error
    say(`the tests do not run under Node 22: ${error.message}`)
    return isStrict ? 1 : 0
  }
  const projects = SECOND_NODE_PROJECTS.filter(
    (project) => !lacksServers || SERVERLESS_PROJECTS.includes(project),
  )
  say(`once more under Node 22: ${projects.join(', ')}`)
  // First in PATH, so that programs which the tests start, npm among them, run under it too.
  const path = [bin, env.PATH].filter(Boolean).join(delimiter)
  return runVitest({
    name: 'node22',
    root,
    env: { ...env, PATH: path },
    args: only(projects),
    node: join(bin, 'node'),
  })
}

function only(projects) {
  return projects.flatMap((project) => ['--project', project])
}

function runVitest({ name, root, env, args, node = process.execPath }) {
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
  return runInForeground(node, [VITEST, 'run', ...args, ...reporting], { cwd: root, env: rest })
}
