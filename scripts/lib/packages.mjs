/**
 * Installs the npm packages when package-lock.json is not the one of the last install.
 *
 * The note of what was installed is taken away before an install begins and written when it has
 * ended well, so an interrupted one does not count. One that ended without an optional package does:
 * better-sqlite3.mjs says how that one is had later.
 */
import { createHash } from 'node:crypto'
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { compilingEnv, INSTALL_FLAGS } from './npm-env.mjs'
import { runQuietly, say } from './progress.mjs'

/** @param install Runs the install; a test gives its own. */
export async function installPackages(root, install = npmCi) {
  const wanted = lockStamp(root)
  const path = stampPath(root)
  if (readStamp(path) === wanted) return
  say('installing npm packages (once per change of package-lock.json)')
  rmSync(path, { force: true })
  await install(root)
  mkdirSync(dirname(path), { recursive: true }) // npm makes none for a lock without packages.
  writeFileSync(path, `${wanted}\n`)
}

/** Packages differ by platform, so a folder shared between two must not count for both. */
export function lockStamp(root) {
  const lock = readFileSync(join(root, 'package-lock.json'))
  const hash = createHash('sha256').update(lock).digest('hex')
  return `${hash} ${process.platform}-${process.arch}`
}

export function stampPath(root) {
  return join(root, 'node_modules', '.holdfast-setup')
}

function readStamp(path) {
  try {
    return readFileSync(path, 'utf8').trim()
  } catch {
    return ''
  }
}

async function npmCi(root) {
  const env = compilingEnv(process.env, process.execPath)
  await runQuietly('npm', ['ci', ...INSTALL_FLAGS], { cwd: root, env })
}
