/**
 * better-sqlite3: a driver with a program in it that fits one binary interface of Node only.
 *
 * npm downloads that program, or compiles it where it cannot. It is an optional dependency: where
 * neither works an install without it is a good one, and what is tested then is `node:sqlite`, which
 * Node has in itself from 22.13 on.
 *
 *     node_modules/better-sqlite3                              for the Node that runs this script
 *     <cache>/better-sqlite3-12.11.1-node-22-x64/<program>     for the other ones, tests only
 *
 * Under HOLDFAST_REQUIRE_SERVERS=1 it is required wherever it can be had. It cannot where the version
 * in package-lock.json does not name that Node among those it is made for, and where the machine has
 * not what compiles it: these are said in one line and leave the driver out.
 */
import {
  accessSync,
  constants,
  copyFileSync,
  existsSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { createRequire, isBuiltin } from 'node:module'
import { delimiter, join } from 'node:path'
import { makeCacheFolder } from './cache-folder.mjs'
import { withLockFolder } from './lock-folder.mjs'
import { compilingEnv, INSTALL_FLAGS } from './npm-env.mjs'
import { findOtherNode } from './other-node.mjs'
import { runQuietly, SetupError, say } from './progress.mjs'

const NAME = 'better-sqlite3'
const PROGRAM = 'better_sqlite3.node'
/** What node-gyp calls, each by any of its names. */
const TOOLS = [['c++', 'g++', 'clang++'], ['make'], ['python3', 'python']]

/**
 * SQLite is one file of 9 MB, and making it fast takes a minute of a core for each version of Node. What
 * it does is the same, so these programs, which only tests load, are compiled as they stand; the one for
 * the Node that runs this script is as npm makes it.
 */
const QUICK_COMPILER = { CFLAGS: '-O0', CXXFLAGS: '-O0' }

/** Why it cannot be had on this machine. Not a failure, whatever is required. */
export class NotToBeHadError extends SetupError {
  name = 'NotToBeHadError'
}

/** Whether this Node has a driver of its own. */
export function hasNodeSqlite() {
  return isBuiltin('node:sqlite')
}

/**
 * Why what is installed does not load under this Node.
 *
 * @returns {SetupError | null} null when it does load.
 */
export function whyNotLoaded(root) {
  if (!existsSync(join(root, 'node_modules', NAME))) return whyNotInstalled()
  try {
    const Database = createRequire(join(root, 'package.json'))(NAME)
    new Database(':memory:').close()
    return null
  } catch (error) {
    return new SetupError(`${NAME} does not load: ${String(error.message).split('\n')[0]}`)
  }
}

/** An install that failed leaves none of an optional package, and nothing of the reason. */
function whyNotInstalled() {
  const lack = missingTools()
  const again = 'run `npm install` when it can be'
  if (lack === null) return new SetupError(`npm could not install ${NAME}; ${again}`)
  return new NotToBeHadError(`npm could not install ${NAME}, and ${lack}; ${again}`)
}

/** The major version of Node, from npm, whose own driver is used where this one has none at all. */
const NODE_WITH_SQLITE = '22'

/**
 * The program `node` under which a driver of SQLite loads: this one, if any does.
 *
 * @throws {SetupError} that says in one line why there is none.
 */
export async function nodeWithSqlite(root) {
  const reason = whyNotLoaded(root)
  if (reason === null || hasNodeSqlite()) return process.execPath
  try {
    return join(await findOtherNode(NODE_WITH_SQLITE), 'node')
  } catch (error) {
    if (!(error instanceof SetupError)) throw error
    const own = `Node ${process.version} has no SQLite of its own`
    throw new SetupError(`${reason.message}; ${own}; ${error.message.split('\n')[0]}`)
  }
}

/** Compiles what was installed under another Node anew; if that fails, a line says so. */
export async function mendForThisNode(root) {
  if (!/NODE_MODULE_VERSION/.test(whyNotLoaded(root)?.message)) return
  say(`building ${NAME} for Node ${process.version}`)
  try {
    const env = compilingEnv(process.env, process.execPath)
    await runQuietly('npm', ['rebuild', NAME, ...INSTALL_FLAGS], { cwd: root, env })
  } catch (error) {
    if (!(error instanceof SetupError)) throw error
    say(error.message)
  }
}

/**
 * The program for another version of Node, made when it is wanted for the first time.
 *
 * @param bin The folder with the program `node` of that version.
 * @throws {SetupError} when it cannot be made.
 */
export async function findForOtherNode({ root, major, bin }) {
  const { version, majors } = lockedVersion(root)
  if (!majors.includes(major)) {
    throw new NotToBeHadError(`${NAME} ${version} is not made for Node ${major}`)
  }
  const cache = makeCacheFolder()
  const target = join(cache, `${NAME}-${version}-node-${major}-${process.arch}`)
  return withLockFolder(join(cache, `${NAME}.lock`), async () => {
    if (existsSync(join(target, PROGRAM))) return join(target, PROGRAM)
    say(`building ${NAME} ${version} for Node ${major} (once)`)
    const temporary = `${target}.new`
    rmSync(temporary, { recursive: true, force: true })
    mkdirSync(join(temporary, 'made'), { recursive: true })
    try {
      await make(temporary, version, bin)
      rmSync(target, { recursive: true, force: true })
      renameSync(join(temporary, 'made'), target)
    } finally {
      rmSync(temporary, { recursive: true, force: true })
    }
    return join(target, PROGRAM)
  })
}

/** Leaves the program alone in `<folder>/made`: sources and objects are 30 MB. */
async function make(folder, version, bin) {
  const node = join(bin, 'node')
  const manifest = { private: true, allowScripts: { [NAME]: true } }
  writeFileSync(join(folder, 'package.json'), JSON.stringify(manifest))
  const args = ['install', '--prefix', folder, '--prefer-offline', '--fetch-retries=1']
  try {
    const env = compilingEnv(process.env, node)
    // First in PATH: npm and all that it starts then run under it.
    const path = `${bin}${delimiter}${env.PATH}`
    const options = { cwd: folder, env: { ...env, ...QUICK_COMPILER, PATH: path } }
    await runQuietly('npm', [...args, ...INSTALL_FLAGS, `${NAME}@${version}`], options)
  } catch (error) {
    const lack = missingTools()
    if (!(error instanceof SetupError) || lack === null) throw error
    throw new NotToBeHadError(`npm could not install ${NAME} ${version}, and ${lack}`)
  }
  const built = join(folder, 'node_modules', NAME, 'build/Release', PROGRAM)
  if (!existsSync(built)) throw new SetupError(`npm ran no install script of ${NAME}`)
  const load = 'process.dlopen({ exports: {} }, process.argv[1])'
  await runQuietly(node, ['-e', load, built])
  copyFileSync(built, join(folder, 'made', PROGRAM))
}

/** What package-lock.json says of it. */
function lockedVersion(root) {
  const { packages } = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8'))
  const { version, engines } = packages[`node_modules/${NAME}`]
  const majors = engines.node.matchAll(/(\d+)\.x/g)
  return { version, majors: Array.from(majors, ([, major]) => Number(major)) }
}

/** `there is no …` of what compiling needs, or null. */
function missingTools() {
  const missing = TOOLS.filter((names) => !names.some(isOnPath)).map(([name]) => name)
  return missing.length === 0 ? null : `there is no ${missing.join(', no ')} to compile it with`
}

function isOnPath(program) {
  return (process.env.PATH ?? '').split(delimiter).some((folder) => {
    try {
      accessSync(join(folder, program), constants.X_OK)
      return true
    } catch {
      return false
    }
  })
}
