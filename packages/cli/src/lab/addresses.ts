/** Where what a run works on is to be found. */
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import type { Addresses } from './scenario.ts'

/**
 * For a part of a run: files of its own, where it works on files. A process that stands still in a
 * transaction keeps all others from writing the same file, so lanes must not share one. Servers keep
 * apart what belongs to different names, and are the same for all.
 */
export function within(addresses: Addresses, part: string): Addresses {
  if (addresses.sqlite === undefined) return addresses
  const folder = join(addresses.sqlite.folder, part.replace(/[^a-z0-9]+/g, '-'))
  mkdirSync(folder, { recursive: true })
  return { sqlite: { folder } }
}
