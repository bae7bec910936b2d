/**
 * Builds both packages and the bench when a source changed since the last build.
 *
 * `tsc -b` decides by file times and would do, but starting it costs more than hashing the few
 * hundred kB of sources. A build that failed leaves no note, like an install.
 */
import { createHash } from 'node:crypto'
import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { childEnv } from './npm-env.mjs'
import { runQuietly, say } from './progress.mjs'

const PACKAGES = ['packages/holdfast', 'packages/cli', 'bench']

export async function build(root) {
  const path = join(root, 'node_modules', '.holdfast-build')
  const wanted = sourceStamp(root)
  const isBuilt = PACKAGES.every((folder) => existsSync(join(root, folder, 'dist/.tsbuildinfo')))
  if (isBuilt && readOrEmpty(path) === wanted) return
  say('building')
  rmSync(path, { force: true })
  // By path and not by npx, which would ask the registry if the package were missing.
  await runQuietly(process.execPath, [join(root, 'node_modules/typescript/bin/tsc'), '-b'], {
    cwd: root,
    env: childEnv(process.env),
  })
  writeFileSync(path, wanted)
}

/** Everything that the output depends on: sources, compiler settings, and the compiler by the lock. */
function sourceStamp(root) {
  const files = ['package-lock.json', 'tsconfig.json', 'tsconfig.base.json']
  for (const folder of PACKAGES) {
    files.push(join(folder, 'package.json'), join(folder, 'tsconfig.json'))
    for (const entry of readdirSync(join(root, folder, 'src'), { recursive: true })) {
      if (entry.endsWith('.ts')) files.push(join(folder, 'src', entry))
    }
  }
  const hash = createHash('sha256')
  for (const file of files.sort()) hash.update(`${file}\n${readFileSync(join(root, file))}\n`)
  return hash.digest('hex')
}

function readOrEmpty(path) {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return ''
  }
}
