/**
 * Whether the path of a database still leads to the file that the connection has open.
 *
 * A file that is removed, or replaced by a backup, stays open where it was open: its processes would go
 * on excluding each other in it, beside those that have opened the new one. SQLite itself does not look.
 * By the number of the file only, without opening it: closing it would drop the kernel's locks that
 * SQLite holds for this process.
 *
 * Does not guarantee anything for a file that is replaced between the look and the commit, nor for one
 * whose content is overwritten in place.
 */
import { statSync } from 'node:fs'
import { BackendUnavailableError } from '../../core/errors.ts'

export class SameFile {
  readonly #path: string
  #first: string | null

  constructor(path: string) {
    this.#path = path
    this.#first = numberOf(path)
  }

  /** @throws BackendUnavailableError from then on where the path leads elsewhere, or nowhere. */
  check(): void {
    const now = numberOf(this.#path)
    this.#first ??= now
    if (now !== null && now === this.#first) return
    const words = `the file ${this.#path} was removed, moved or replaced since it was opened: open it anew`
    throw new BackendUnavailableError('down', words)
  }
}

/** Null where there is none. */
function numberOf(path: string): string | null {
  try {
    // As bigints: some file systems number beyond 2^53.
    const stats = statSync(path, { bigint: true, throwIfNoEntry: false })
    return stats === undefined ? null : `${stats.dev}/${stats.ino}`
  } catch {
    // A folder on the way is gone, or closed to us: the same for whoever would open it now.
    return null
  }
}
