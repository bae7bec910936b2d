import { execFile } from 'node:child_process'
import { realpathSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

/** dist/lab/commit.js is four folders below the repository, if it lies in one. */
const ROOT = fileURLToPath(new URL('../../../../', import.meta.url))
const GIT_MS_MAX = 10_000

/**
 * Which source this is: the commit, `-dirty` if files differ from it, `unknown` outside of a
 * checkout. An installed package may lie inside somebody else's repository; its commit says
 * nothing about us.
 */
export async function currentCommit(): Promise<string> {
  try {
    const top = await git('rev-parse', '--show-toplevel')
    if (realpathSync(top) !== realpathSync(ROOT)) return 'unknown'
    const commit = await git('rev-parse', 'HEAD')
    return (await git('status', '--porcelain')) === '' ? commit : `${commit}-dirty`
  } catch {
    return 'unknown'
  }
}

async function git(...args: string[]): Promise<string> {
  const { stdout } = await promisify(execFile)('git', args, {
    cwd: ROOT,
    timeout: GIT_MS_MAX,
    maxBuffer: 64 * 1024 * 1024,
  })
  return stdout.trim()
}
