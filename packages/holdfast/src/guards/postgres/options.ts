/** The options of the PostgreSQL guard: default, range, check. */
import type { Options } from '../../core/backend.ts'
import { InvalidArgumentError } from '../../core/errors.ts'
import { checkNames, integer } from '../../core/options.ts'
import type { ColumnNames } from '../shared/columns.ts'
import { storableText } from '../shared/text.ts'
import { NAME_BYTES_MAX, type PostgresColumns, readColumns } from './columns.ts'

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
  /**
   * Whether `transaction` sends BEGIN, the claim and the first reads of `fn` in one flight, which saves
   * a round trip: `false`, because `fn` then starts before it is known whether its holder is
   * superseded. Needs a `Pool` of `pg` 8.23 made with `pipeline: true`.
   *
   * Guarantees all the same: no answer of the database reaches `fn` before the claim is good, nothing
   * but reads (a single SELECT) is sent before that, and for a superseded holder everything is rolled
   * back: `transaction` rejects with StaleTokenError, whatever `fn` makes of the statements that are
   * refused to it. Does not guarantee: that what `fn` does up to its first awaited answer is left undone
   * for a superseded holder, nor what no rollback undoes in a SELECT: `nextval`, advisory locks of a
   * session. The first transaction of each connection, and all of one that forgets what is prepared (a
   * pooler in transaction mode), take the ordinary form.
   */
  pipelined: boolean
}>

/** Checked and complete. */
export type GuardSettings = Readonly<{
  schema: string
  timeoutMs: number
  resource: (lockName: string) => string
  isolation: PostgresIsolation | undefined
  columns: ColumnNames
  isPipelined: boolean
}>

const ISOLATIONS: readonly string[] = ['read committed', 'repeatable read', 'serializable']
const NAMES: readonly string[] = [
  'schema',
  'timeoutMs',
  'resource',
  'isolation',
  'columns',
  'pipelined',
]

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
  const { schema, timeoutMs, resource, isolation, columns, pipelined = false } = own
  if (resource !== undefined && typeof resource !== 'function') {
    throw new InvalidArgumentError('resource', resource, 'a function from lock name to text')
  }
  if (isolation !== undefined && !ISOLATIONS.includes(isolation as string)) {
    throw new InvalidArgumentError('isolation', isolation, `one of ${ISOLATIONS.join(', ')}`)
  }
  if (typeof pipelined !== 'boolean') {
    throw new InvalidArgumentError('pipelined', pipelined, 'true or false')
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
    isPipelined: pipelined,
  }
}
