/** Folders and programs for the package checks. Nothing of the user's configuration reaches them. */
import { spawn } from 'node:child_process'
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { inject, onTestFinished } from 'vitest'
import { childEnv } from '../../../../scripts/lib/npm-env.mjs'
import { packFolder } from '../../../../scripts/lib/pack.mjs'

export const ROOT: string = fileURLToPath(new URL('../../../../', import.meta.url))

const RUN_MS_MAX = 120_000

/** What tarballs.setup.ts packed. */
export function packedTarballs(): { holdfast: string; cli: string } {
  const tarballs = inject('tarballs')
  if ('failure' in tarballs) throw new Error(tarballs.failure)
  return tarballs
}

/** Outside the repository, so that nothing is found in a folder above. Gone when the test is over. */
export function emptyFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-package-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

export interface Outcome {
  readonly code: number | null
  /** stdout and stderr as they came. */
  readonly output: string
}

/** Runs a program to its end; one that hangs is killed and has `code` null. */
export function run(cwd: string, command: string, args: readonly string[]): Promise<Outcome> {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, {
      cwd,
      env: cleanEnv(cwd),
      stdio: ['ignore', 'pipe', 'pipe'],
      timeout: RUN_MS_MAX,
      killSignal: 'SIGKILL',
    })
    let output = ''
    const collect = (text: string): void => {
      output += text
    }
    child.stdout.setEncoding('utf8').on('data', collect)
    child.stderr.setEncoding('utf8').on('data', collect)
    child.once('error', reject)
    child.once('close', (code) => resolve({ code, output }))
  })
}

/** Runs a script under the Node that runs the tests. */
export function runNode(cwd: string, ...args: readonly string[]): Promise<Outcome> {
  return run(cwd, process.execPath, args)
}

/** Caches and settings of their own: an install that only works with a warm cache fails here. */
function cleanEnv(cwd: string): Record<string, string | undefined> {
  const home = join(cwd, '.home')
  return {
    ...childEnv(process.env),
    PATH: [dirname(process.execPath), process.env['PATH']].join(delimiter),
    HOME: home,
    XDG_CACHE_HOME: join(home, 'cache'),
    XDG_CONFIG_HOME: join(home, 'config'),
    XDG_DATA_HOME: join(home, 'data'),
    XDG_STATE_HOME: join(home, 'state'),
    npm_config_cache: join(home, 'npm'),
    npm_config_update_notifier: 'false',
    NO_COLOR: '1',
  }
}

/** A consumer's folder with the tarball installed by npm, offline: there is nothing to fetch. */
export async function installed(tarball: string): Promise<string> {
  const folder = emptyFolder()
  writeFileSync(join(folder, 'package.json'), '{"private": true, "type": "module"}\n')
  const args = ['install', tarball, '--offline', '--no-audit', '--no-fund']
  const { code, output } = await run(folder, 'npm', args)
  if (code !== 0) throw new Error(`npm install failed:\n${output}`)
  return folder
}

/** What is in a tarball, as a folder. */
export async function unpacked(tarball: string): Promise<string> {
  const folder = emptyFolder()
  await unpackInto(folder, tarball)
  return folder
}

/** What is in a tarball, without the folder `package` that it is in there. */
export async function unpackInto(folder: string, tarball: string): Promise<void> {
  const { code, output } = await run(folder, 'tar', ['-xzf', tarball, '--strip-components=1'])
  if (code !== 0) throw new Error(`tar failed:\n${output}`)
}

/** The tarball with one thing broken, as a publisher might break it. */
export async function broken(tarball: string, damage: (folder: string) => void): Promise<string> {
  const folder = await unpacked(tarball)
  damage(folder)
  return packFolder(folder, emptyFolder())
}

/** Puts packages of the repository into a consumer's folder, under the names it knows them by. */
export function linkPackages(folder: string, names: readonly string[]): void {
  for (const name of names) {
    const target = join(folder, 'node_modules', name)
    mkdirSync(dirname(target), { recursive: true })
    symlinkSync(join(ROOT, 'node_modules', name), target)
  }
}

export function copyInto(folder: string, name: string): void {
  cpSync(fileURLToPath(new URL(name, import.meta.url)), join(folder, name.replace(/^.*\//, '')))
}

/** All files below a folder, with `/`, sorted. */
export function filesBelow(folder: string): string[] {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(folder.length + 1))
    .sort()
}
