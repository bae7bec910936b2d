/** The options of the PostgreSQL guard: default, range, check. */
import type { Options } from '../../core/backend.ts'
import { InvalidArgumentError } from '../../core/errors.ts'
import { checkNames, integer } from '../../core/options.ts'
import { type ColumnNames, NAME_BYTES_MAX, type PostgresColumns, readColumns } from './columns.ts'
import { storableText } from './text.ts'

export type PostgresIsolation = 'read committed' | 'repeatable read' | 'serializable'

export type PostgresGuardOptions = Options<{
  /**
   * Where the guard's table `fences` lies: `holdfast`. 1 to 63 bytes of UTF-8, taken exactly as
   * written.
   */
  schema: string
  /**
   * The bound of one guarded call for a plain `Fenced`, of whose validity nothing is known: 10,000,
   * as long as a transaction that holds a row should ever last. 100 to 600,000 milliseconds. A lease
   * brings its own bound, its validity.
   */
  timeoutMs: number
  /**
   * Which record of the fence a lock name stands for: the lock name itself. Two lock names with one
   * record exclude each other's late writes only if their tokens rise together.
   */
  resource: (lockName: string) => string
  /** Of the guard's own transactions: the database's default. */
  isolation: PostgresIsolation
  /**
   * What the five columns of the column form are called: `fence`, `fence_seq`, `fence_owner`,
   * `fence_op`, `fence_source`. Each 1 to 63 bytes of UTF-8, taken exactly as written.
   */
  columns: PostgresColumns
}>

/** Checked and complete. */
export type GuardSettings = Readonly<{
  schema: string
  timeoutMs: number
  resource: (lockName: string) => string
  isolation: PostgresIsolation | undefined
  columns: ColumnNames
}>

const ISOLATIONS: readonly string[] = ['read committed', 'repeatable read', 'serializable']
const NAMES: readonly string[] = ['schema', 'timeoutMs', 'resource', 'isolation', 'columns']

const SCHEMA_DEFAULT = 'holdfast'
const TIMEOUT_MS_DEFAULT = 10_000
const TIMEOUT_MS_MIN = 100
const TIMEOUT_MS_MAX = 600_000

/** @throws InvalidArgumentError naming the first option that is wrong. */
export function readGuardOptions(options: unknown): GuardSettings {
  const own = (options ?? {}) as Record<string, unknown>
  if (typeof own !== 'object' || Array.isArray(own)) {
    throw new InvalidArgumentError('options', options, 'an object with options')
  }
  checkNames(own, NAMES)
  const { schema, timeoutMs, resource, isolation, columns } = own
  if (resource !== undefined && typeof resource !== 'function') {
    throw new InvalidArgumentError('resource', resource, 'a function from lock name to text')
  }
  if (isolation !== undefined && !ISOLATIONS.includes(isolation as string)) {
    throw new InvalidArgumentError('isolation', isolation, `one of ${ISOLATIONS.join(', ')}`)
  }
  return {
    schema: storableText('schema', schema ?? SCHEMA_DEFAULT, NAME_BYTES_MAX),
    timeoutMs: integer(
      'timeoutMs',
      timeoutMs ?? TIMEOUT_MS_DEFAULT,
      TIMEOUT_MS_MIN,
      TIMEOUT_MS_MAX,
      ' milliseconds',
    ),
    resource: (resource as GuardSettings['resource'] | undefined) ?? ((lockName) => lockName),
    isolation: isolation as PostgresIsolation | undefined,
    columns: readColumns(columns),
  }
}
