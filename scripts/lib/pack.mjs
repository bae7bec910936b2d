/**
 * Builds both packages from nothing and packs them, without touching the work tree.
 *
 * `dist/` of the work tree is what an editor and the last build left: it may be behind the sources,
 * and may hold the output of a source that is gone. So the sources are copied into a folder of their
 * own, built there and packed there, and what is tested is what is published.
 */
import { spawnSync } from 'node:child_process'
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  symlinkSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { childEnv } from './npm-env.mjs'
import { runQuietly } from './progress.mjs'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
/** git refuses folders of another user, for the sake of hooks and settings that we do not use. */
const TRUST = ['-c', `safe.directory=${ROOT.replace(/\/$/, '')}`]
const FOLDERS = ['packages/holdfast', 'packages/cli']
const COPIED = ['package.json', 'README.md', 'LICENSE', 'tsconfig.json', 'src']

/**
 * @param {string} destination An existing folder, which gets the tarballs.
 * @returns {Promise<string[]>} Their paths: the library's, then the command line's.
 */
export async function packAll(destination) {
  const stage = mkdtempSync(join(tmpdir(), 'holdfast-pack-'))
  try {
    await build(stage)
    const tarballs = []
    for (const folder of FOLDERS) tarballs.push(await packFolder(join(stage, folder), destination))
    return tarballs
  } finally {
    rmSync(stage, { recursive: true, force: true })
  }
}

/** Whether this clone has that commit: one that was made with `--depth` has not. */
export function hasCommit(commit) {
  const git = [...TRUST, 'cat-file', '-e', `${commit}^{commit}`]
  return spawnSync('git', git, { cwd: ROOT, stdio: 'ignore' }).status === 0
}

/** The last tag of a version below this commit, or null. */
export function lastVersion() {
  const git = [...TRUST, 'tag', '--list', 'v*', '--sort=-creatordate', '--merged', 'HEAD']
  const { stdout } = spawnSync('git', git, { cwd: ROOT, encoding: 'utf8' })
  return stdout?.trim().split('\n')[0] || null
}

/**
 * The library as it was at `commit`, compiled with the packages of today.
 *
 * @param {string} destination An existing folder, which gets the tarball.
 * @returns {Promise<string>} Its path.
 * @throws {SetupError} when this clone has no such commit.
 */
export async function packCommit(commit, destination) {
  const stage = mkdtempSync(join(tmpdir(), 'holdfast-pack-'))
  try {
    const archive = join(stage, 'commit.tar')
    const paths = ['tsconfig.base.json', FOLDERS[0]]
    const git = ['archive', '--format=tar', `--output=${archive}`, commit, ...paths]
    await runQuietly('git', [...TRUST, ...git], { cwd: ROOT, env: childEnv(process.env) })
    await runQuietly('tar', ['-xf', archive], { cwd: stage, env: childEnv(process.env) })
    symlinkSync(join(ROOT, 'node_modules'), join(stage, 'node_modules'))
    await compile(stage, [FOLDERS[0]])
    return await packFolder(join(stage, FOLDERS[0]), destination)
  } finally {
    rmSync(stage, { recursive: true, force: true })
  }
}

/** @returns {Promise<string>} The path of the tarball. */
export async function packFolder(folder, destination) {
  const args = ['pack', '--json', '--ignore-scripts', '--pack-destination', destination]
  const output = await runQuietly('npm', args, { cwd: folder, env: childEnv(process.env) })
  const [packed] = JSON.parse(output)
  return join(destination, packed.filename)
}

async function build(stage) {
  cpSync(join(ROOT, 'tsconfig.base.json'), join(stage, 'tsconfig.base.json'))
  symlinkSync(join(ROOT, 'node_modules'), join(stage, 'node_modules'))
  for (const folder of FOLDERS) {
    mkdirSync(join(stage, folder), { recursive: true })
    for (const name of COPIED) {
      cpSync(join(ROOT, folder, name), join(stage, folder, name), { recursive: true })
    }
    linkPackages(join(ROOT, folder, 'node_modules'), join(stage, folder, 'node_modules'))
  }
  // The link in the common node_modules leads to the work tree, and its library may be an old build.
  symlinkSync(join(stage, 'packages/holdfast'), join(stage, 'packages/cli/node_modules/holdfast'))
  await compile(stage, FOLDERS)
}

/** The packages by name: the settings at the root also name folders that are not copied. */
async function compile(stage, folders) {
  const tsc = [join(ROOT, 'node_modules/typescript/bin/tsc'), '-b', ...folders]
  await runQuietly(process.execPath, tsc, { cwd: stage, env: childEnv(process.env) })
}

/** The packages that npm put beside one of ours because its version differs from the common one. */
function linkPackages(from, to) {
  mkdirSync(to)
  if (!existsSync(from)) return
  for (const name of readdirSync(from)) symlinkSync(join(from, name), join(to, name))
}
