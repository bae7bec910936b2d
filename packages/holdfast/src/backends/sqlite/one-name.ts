/**
 * Whether a database is reached by one name only.
 *
 * SQLite's log, and the memory by which processes see each other's, lie beside the name by which a file is
 * opened. Whoever opens another name of it (a hard link), or a mount of the file alone, has a log of his
 * own: neither sees what the other commits, both grant the same name, and the file is damaged at last
 * (sqlite.org/howtocorrupt.html, 2.5). A symbolic link is followed, and a folder may be mounted anywhere.
 *
 * Does not guarantee anything for a name or a mount that is made while the file is open: it is refused to
 * whoever opens it by that.
 */
import { readFile, stat } from 'node:fs/promises'
import { InvalidArgumentError } from '../../core/errors.ts'
import { lookedAt } from './file-systems.ts'

/** What the kernel writes for a blank, a tab, a line end and a backslash: three octal digits. */
const ESCAPED = /\\([0-7]{3})/g

/**
 * @param path As SQLite has it: whole, and without symbolic links.
 * @throws InvalidArgumentError when there may be a second log; BackendUnavailableError when it is gone.
 */
export async function checkOneName(
  path: string,
  mounts: () => Promise<string> = mountsOfProcess,
): Promise<void> {
  const { nlink } = await lookedAt(path, () => stat(path))
  if (nlink > 1) {
    const allowed = 'a file without hard links: each name of one has a log of its own'
    throw new InvalidArgumentError('database', path, allowed)
  }
  if (isMountPoint(path, await mounts())) {
    const allowed =
      'a file in a folder that is mounted, not mounted by itself: its log lies beside it, where no other container sees it'
    throw new InvalidArgumentError('database', path, allowed)
  }
}

/** The fifth field of a line is where it is mounted. */
function isMountPoint(path: string, mounts: string): boolean {
  return mounts.split('\n').some((line) => {
    const point = line.split(' ')[4]
    const plain = point?.replace(ESCAPED, (_, digits: string) =>
      String.fromCharCode(Number.parseInt(digits, 8)),
    )
    return plain === path
  })
}

async function mountsOfProcess(): Promise<string> {
  try {
    return await readFile('/proc/self/mountinfo', 'utf8')
  } catch {
    // Not Linux, where no file is mounted by itself.
    return ''
  }
}
