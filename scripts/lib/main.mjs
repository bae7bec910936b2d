/** What each command of run.mjs does. Its header has the order and the exit codes. */
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { mendForThisNode, nodeWithSqlite } from './better-sqlite3.mjs'
import { build } from './build.mjs'
import { runInForeground } from './children.mjs'
import { childEnv } from './npm-env.mjs'
import { installPackages } from './packages.mjs'
import { SetupError, say } from './progress.mjs'
import { findServers } from './servers.mjs'
import { withSetupLock } from './setup-lock.mjs'
import { swallowedFlags } from './swallowed-flags.mjs'
import { runTests } from './tests.mjs'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))

const COMMANDS = { lab, bench, sim, test, build: async () => 0 }

/** @returns the exit code. */
export async function main([command, ...args]) {
  if (!Object.hasOwn(COMMANDS, command ?? '')) {
    say(`usage: node scripts/run.mjs ${Object.keys(COMMANDS).join('|')} [arguments]`)
    return 2
  }
  const refusal = swallowedFlags(command, args, process.env)
  if (refusal !== null) {
    say(refusal)
    return 2
  }
  try {
    const servers = await setUp(command, args)
    return await COMMANDS[command](args, servers)
  } catch (error) {
    if (!(error instanceof SetupError)) throw error
    say(error.message)
    return 1
  }
}

/** Everything that two terminals must not do at once in one clone happens under its lock. */
async function setUp(command, args) {
  return withSetupLock(ROOT, async () => {
    await installPackages(ROOT)
    await mendForThisNode(ROOT)
    const servers = await serversFor(command, args)
    await build(ROOT)
    return servers
  })
}

/** The simulation and the embedded lab need none, and would wait for their download; the lab itself says what it lacks. */
async function serversFor(command, args) {
  if (command === 'sim') return { servers: {}, missing: {} }
  if (command !== 'lab') return findServers()
  return isEmbedded(args) ? { servers: {}, missing: {} } : findServers(() => {})
}

function isEmbedded(args) {
  return args.includes('--embedded')
}

/** What each of its scenarios stands on. Without etcd some arms are skipped, and no more. */
const LAB_SERVERS = ['redis', 'postgres']

/** Without its servers it is the embedded one, which needs a driver of SQLite: 3 without that. */
export async function lab(args, servers, root = ROOT) {
  const asksOnly = args.includes('--help') || args.includes('-h') || args.includes('--version')
  const needsSqlite = isEmbedded(args) || LAB_SERVERS.some((kind) => kind in servers.missing)
  let node = process.execPath
  if (needsSqlite && !asksOnly) {
    try {
      node = await nodeWithSqlite(root)
    } catch (error) {
      if (!(error instanceof SetupError)) throw error
      say(error.message)
      return 3
    }
  }
  const env = { ...childEnv(process.env), HOLDFAST_SERVERS: JSON.stringify(servers) }
  return runInForeground(node, ['packages/cli/dist/lab/main.js', ...args], { cwd: ROOT, env })
}

/**
 * The other lock libraries are packages of its own, which nothing else here needs: they are installed
 * when it is run for the first time. Without them it compares with hand-written locks, and says so.
 */
export async function bench(args, servers) {
  const env = { ...childEnv(process.env), HOLDFAST_SERVERS: JSON.stringify(servers) }
  if (!args.includes('--help') && !args.includes('--no-peers')) {
    try {
      await withSetupLock(ROOT, () => installPackages(join(ROOT, 'bench')))
    } catch (error) {
      if (!(error instanceof SetupError)) throw error
      say(error.message)
      env.HOLDFAST_BENCH_NO_PEERS = 'their packages could not be installed'
    }
  }
  return runInForeground(process.execPath, ['bench/dist/main.js', ...args], { cwd: ROOT, env })
}

/** Needs no servers: its world is in one process. */
function sim(args) {
  const env = childEnv(process.env)
  return runInForeground(process.execPath, ['packages/holdfast/dist/sim/cli.js', ...args], {
    cwd: ROOT,
    env,
  })
}

async function test(args, servers) {
  const env = { ...childEnv(process.env), HOLDFAST_SERVERS: JSON.stringify(servers) }
  return runTests({ root: ROOT, args, env, missing: servers.missing })
}
