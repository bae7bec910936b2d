import { accessSync, constants, mkdtempSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** In memory where the machine has such a place: for many files whose disk is not what is tested. */
export function quickFolder(prefix: string): string {
  try {
    accessSync('/dev/shm', constants.W_OK)
    return mkdtempSync(join('/dev/shm', prefix))
  } catch {
    // Not Linux, or a container without it.
    return mkdtempSync(join(tmpdir(), prefix))
  }
}
