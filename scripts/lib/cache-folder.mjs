/**
 * Where downloads are kept between runs and between clones.
 *
 * As root it is a folder that every user may read: root's servers run under other uids, which
 * cannot enter root's home.
 */
import { mkdirSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { SetupError } from './setup-error.mjs'

export const SHARED_CACHE = '/var/cache/holdfast'

/** HOLDFAST_CACHE puts it elsewhere. */
export function cacheFolder() {
  if (process.env.HOLDFAST_CACHE) return process.env.HOLDFAST_CACHE
  if (process.getuid?.() === 0) return SHARED_CACHE
  return join(process.env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'holdfast')
}

/** Makes it if needed. @throws {SetupError} when it cannot be made. Every folder below it is 0755 whatever the umask says. */
export function makeCacheFolder() {
  const before = process.umask(0o022)
  try {
    mkdirSync(cacheFolder(), { recursive: true })
  } catch (error) {
    const where = `the folder for downloads, ${cacheFolder()}, cannot be made (${error.code})`
    throw new SetupError(`${where}: set HOLDFAST_CACHE to one that can`)
  } finally {
    process.umask(before)
  }
  return cacheFolder()
}
