/**
 * Compiles the library into a folder of the caller's.
 *
 * For whatever judges the build itself: `dist/` may be older than the sources, and may still hold
 * what a source that is gone once gave.
 */
import { fileURLToPath } from 'node:url'
import { childEnv } from './npm-env.mjs'
import { runQuietly } from './progress.mjs'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))

/** @param {string} outFolder Gets what `packages/holdfast/dist` would. */
export async function emitLibrary(outFolder) {
  const alone = ['--composite', 'false', '--incremental', 'false', '--tsBuildInfoFile', 'null']
  const args = ['-p', 'packages/holdfast', '--outDir', outFolder, ...alone]
  await runQuietly(process.execPath, ['node_modules/typescript/bin/tsc', ...args], {
    cwd: ROOT,
    env: childEnv(process.env),
  })
}
