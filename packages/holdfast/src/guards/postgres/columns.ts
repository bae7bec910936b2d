/**
 * The column form's five columns in a table of the user's, and names that come from the caller.
 *
 *     fence         bigint  the largest fencing token that wrote the row
 *     fence_seq     bigint  how many writes of that token the row has seen
 *     fence_owner   text    whose token it is
 *     fence_op      text    which call was last
 *     fence_source  text    whose tokens these are
 *
 * All null, a row that nobody has written through the guard, or all set.
 */
import { createHash } from 'node:crypto'
import { quoteIdentifier } from '../../clients/postgres.ts'
import type { Options } from '../../core/backend.ts'
import { type ColumnNames, columnNames, type TableName, tableName } from '../shared/columns.ts'

/** What each of the five columns is called. */
export type PostgresColumns = Options<{
  fence: string
  seq: string
  owner: string
  op: string
  source: string
}>

const TYPES: ColumnNames = {
  fence: 'bigint',
  seq: 'bigint',
  owner: 'text',
  op: 'text',
  source: 'text',
}

/** PostgreSQL cuts longer names silently (NAMEDATALEN - 1), and two of them would be one. */
export const NAME_BYTES_MAX = 63

/** @throws InvalidArgumentError naming what is wrong. */
export function readColumns(option: unknown): ColumnNames {
  return columnNames(option, NAME_BYTES_MAX)
}

/** @throws InvalidArgumentError. */
export function readTable(table: unknown): TableName {
  return tableName(table, NAME_BYTES_MAX)
}

/** One for each set of columns, and never longer than PostgreSQL keeps. */
export function constraintName({ fence }: ColumnNames): string {
  const name = `holdfast_${fence}`
  if (Buffer.byteLength(name) <= NAME_BYTES_MAX) return name
  return `holdfast_${createHash('sha256').update(fence).digest('hex').slice(0, 32)}`
}

/** The columns as `name`, `type`, in the order of the table above. */
export function columnTypes(columns: ColumnNames): readonly (readonly [string, string])[] {
  return Object.entries(columns).map(([key, name]) => [name, TYPES[key as keyof ColumnNames]])
}

/**
 * Adds the columns to a table; may run again.
 *
 * One statement, so that no row is ever without the check. NOT VALID spares the scan of the whole
 * table under its exclusive lock: the check holds for every later write, and before it the columns
 * did not exist.
 */
export function columnsDdl(table: TableName, columns: ColumnNames): string {
  const added = columnTypes(columns).map(
    ([name, type]) => `ADD COLUMN IF NOT EXISTS ${quoteIdentifier(name)} ${type}`,
  )
  const all = Object.values(columns).map(quoteIdentifier).join(', ')
  const [fence, seq] = [columns.fence, columns.seq].map(quoteIdentifier)
  const constraint = quoteIdentifier(constraintName(columns))
  return `ALTER TABLE ${table.quoted}
  ${added.join(',\n  ')},
  DROP CONSTRAINT IF EXISTS ${constraint},
  ADD CONSTRAINT ${constraint}
    CHECK (num_nonnulls(${all}) IN (0, 5) AND ${fence} > 0 AND ${seq} > 0) NOT VALID;
`
}
