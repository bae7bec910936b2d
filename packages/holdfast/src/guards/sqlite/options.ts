/** The options of the SQLite guard: default, range, check. */
import type { Options } from '../../core/backend.ts'
import { InvalidArgumentError } from '../../core/errors.ts'
import { checkNames, integer } from '../../core/options.ts'
import { type ColumnNames, columnNames } from '../shared/columns.ts'

/** What each of the five columns is called. */
export type SqliteColumns = Options<{
  fence: string
  seq: string
  owner: string
  op: string
  source: string
}>

export type SqliteGuardOptions = Options<{
  /**
   * Begins the names of Holdfast's tables: `holdfast_`, so that the guard's is `holdfast_fences`. 1 to
   * 40 letters, digits and underscores, no digit first, not beginning with `sqlite_`. The lock tables
   * of a `sqliteBackend` in the same file are found by the same beginning.
   */
  tablePrefix: string
  /**
   * The bound of one guarded call for a plain `Fenced`, of whose validity nothing is known: 10,000,
   * as long as a transaction that keeps a whole file should ever last. 100 to 600,000 milliseconds. A
   * lease brings its own bound, its validity.
   */
  timeoutMs: number
  /**
   * `full`, the default: what was committed is on the disk. The guard sets the connection to it before
   * its first transaction, because better-sqlite3 comes with NORMAL. `normal`: the connection stays as
   * it is; a power cut may then take the last transactions back, claims and writes together.
   */
  synchronous: 'full' | 'normal'
  /**
   * Which record of the fence a lock name stands for: the lock name itself. Two lock names with one
   * record exclude each other's late writes only if their tokens rise together.
   */
  resource: (lockName: string) => string
  /**
   * What the five columns of the column form are called: `fence`, `fence_seq`, `fence_owner`,
   * `fence_op`, `fence_source`. Each 1 to 128 bytes of UTF-8; SQLite takes ASCII letters of either case
   * for the same.
   */
  columns: SqliteColumns
}>

/** Checked and complete. */
export type GuardSettings = Readonly<{
  tablePrefix: string
  timeoutMs: number
  synchronous: 'full' | 'normal'
  resource: (lockName: string) => string
  columns: ColumnNames
}>

const NAMES: readonly string[] = ['tablePrefix', 'timeoutMs', 'synchronous', 'resource', 'columns']

const PREFIX_DEFAULT = 'holdfast_'
const PREFIX = /^(?!sqlite_)[A-Z_][A-Z0-9_]{0,39}$/i
const TIMEOUT_MS_DEFAULT = 10_000
const TIMEOUT_MS_MIN = 100
const TIMEOUT_MS_MAX = 600_000
/** SQLite has no limit of its own; nobody writes longer names by hand. */
export const NAME_BYTES_MAX = 128

/** @throws InvalidArgumentError naming the first option that is wrong. */
export function readGuardOptions(options: unknown): GuardSettings {
  const own = (options ?? {}) as Record<string, unknown>
  if (typeof own !== 'object' || Array.isArray(own)) {
    throw new InvalidArgumentError('options', options, 'an object with options')
  }
  checkNames(own, NAMES)
  const { tablePrefix = PREFIX_DEFAULT, timeoutMs, resource, columns } = own
  const { synchronous = 'full' } = own
  if (typeof tablePrefix !== 'string' || !PREFIX.test(tablePrefix)) {
    const allowed =
      '1 to 40 letters, digits and underscores, no digit first, not beginning with sqlite_'
    throw new InvalidArgumentError('tablePrefix', tablePrefix, allowed)
  }
  if (synchronous !== 'full' && synchronous !== 'normal') {
    throw new InvalidArgumentError('synchronous', synchronous, "'full' or 'normal'")
  }
  if (resource !== undefined && typeof resource !== 'function') {
    throw new InvalidArgumentError('resource', resource, 'a function from lock name to text')
  }
  const names = columnNames(columns, NAME_BYTES_MAX)
  const folded = Object.values(names).map((name) => name.toLowerCase())
  if (new Set(folded).size < folded.length) {
    throw new InvalidArgumentError('columns', names, 'five names that differ in more than case')
  }
  return {
    tablePrefix,
    synchronous,
    timeoutMs: integer(
      'timeoutMs',
      timeoutMs ?? TIMEOUT_MS_DEFAULT,
      TIMEOUT_MS_MIN,
      TIMEOUT_MS_MAX,
      ' milliseconds',
    ),
    resource: (resource as GuardSettings['resource'] | undefined) ?? ((lockName) => lockName),
    columns: names,
  }
}
