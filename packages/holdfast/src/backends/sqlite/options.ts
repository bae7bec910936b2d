import type { Options } from '../../core/backend.ts'
import { InvalidArgumentError } from '../../core/errors.ts'
import { checkNames } from '../../core/options.ts'

const TABLE_PREFIX_DEFAULT = 'holdfast_'
const TABLE_PREFIX = /^[A-Za-z_][A-Za-z0-9_]{0,39}$/
const TABLE_PREFIX_ALLOWED =
  '1 to 40 letters, digits and underscores, no digit first, not beginning with sqlite_'

export type SqliteOptions = Options<{
  /**
   * `full`, the default: a grant is on the disk before it is answered, so that tokens never fall, after a
   * power cut neither; nothing else waits for the disk. `normal`: not even a grant does. That is faster,
   * and safe when a process crashes; a power cut or a crash of the system may take the last grants back,
   * and their tokens can be given again.
   */
  synchronous: 'full' | 'normal'
  /** Begins the names of the tables: `holdfast_` by default. All programs of one file need the same. */
  tablePrefix: string
  /**
   * `refuse`, the default: a file on NFS, SMB or another file system that other hosts may share is refused,
   * because WAL needs memory that all processes share. `allow`: for a mount that one host alone uses.
   */
  networkFileSystem: 'refuse' | 'allow'
}>

export interface SqliteSettings {
  readonly synchronous: 'full' | 'normal'
  readonly tablePrefix: string
  readonly networkFileSystem: 'refuse' | 'allow'
}

/** @throws InvalidArgumentError naming the first option that is wrong. */
export function readSqliteOptions(options: SqliteOptions): SqliteSettings {
  if (typeof options !== 'object' || options === null || Array.isArray(options)) {
    throw new InvalidArgumentError('options', options, 'an object with options')
  }
  checkNames(options, ['synchronous', 'tablePrefix', 'networkFileSystem'])
  const {
    synchronous = 'full',
    tablePrefix = TABLE_PREFIX_DEFAULT,
    networkFileSystem = 'refuse',
  } = options
  if (synchronous !== 'full' && synchronous !== 'normal') {
    throw new InvalidArgumentError('synchronous', synchronous, "'full' or 'normal'")
  }
  if (networkFileSystem !== 'refuse' && networkFileSystem !== 'allow') {
    throw new InvalidArgumentError('networkFileSystem', networkFileSystem, "'refuse' or 'allow'")
  }
  const isName = typeof tablePrefix === 'string' && TABLE_PREFIX.test(tablePrefix)
  if (!isName || /^sqlite_/i.test(tablePrefix)) {
    throw new InvalidArgumentError('tablePrefix', tablePrefix, TABLE_PREFIX_ALLOWED)
  }
  return { synchronous, tablePrefix, networkFileSystem }
}
