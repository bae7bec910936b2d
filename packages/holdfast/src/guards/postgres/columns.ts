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
import { InvalidArgumentError } from '../../core/errors.ts'
import { checkNames } from '../../core/options.ts'
import { storableText } from './text.ts'

/** What each of the five columns is called. */
export type PostgresColumns = Options<{
  fence: string
  seq: string
  owner: string
  op: string
  source: string
}>

export type ColumnNames = Readonly<Record<keyof PostgresColumns, string>>

const DEFAULTS: ColumnNames = {
  fence: 'fence',
  seq: 'fence_seq',
  owner: 'fence_owner',
  op: 'fence_op',
  source: 'fence_source',
}

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
  const own = (option ?? {}) as Readonly<Record<string, unknown>>
  const known = Object.keys(DEFAULTS)
  if (typeof own !== 'object' || Array.isArray(own)) {
    throw new InvalidArgumentError('columns', option, `an object with ${known.join(', ')}`)
  }
  checkNames(own, known, 'columns.')
  const name = (key: keyof ColumnNames): string =>
    storableText(`columns.${key}`, own[key] ?? DEFAULTS[key], NAME_BYTES_MAX)
  const names: ColumnNames = {
    fence: name('fence'),
    seq: name('seq'),
    owner: name('owner'),
    op: name('op'),
    source: name('source'),
  }
  if (new Set(Object.values(names)).size < known.length) {
    throw new InvalidArgumentError('columns', names, 'five different names')
  }
  return names
}

/** One part stands for itself or in double quotes, as in SQL; a dot outside of them separates. */
const TABLE = /^(?:(?<schema>"(?:[^"]|"")+"|[^".]+)\.)?(?<name>"(?:[^"]|"")+"|[^".]+)$/

export type TableName = Readonly<{ schema: string | null; name: string; quoted: string }>

/** @throws InvalidArgumentError. */
export function readTable(table: unknown): TableName {
  const { schema, name } = TABLE.exec(typeof table === 'string' ? table : '')?.groups ?? {}
  if (name === undefined) {
    const allowed =
      'the name of a table, "table" or "schema.table", exactly as it is written in the database; ' +
      'a part with a dot or a quote in it stands in double quotes, as in SQL'
    throw new InvalidArgumentError('table', table, allowed)
  }
  const parts = [schema, name].flatMap((part) =>
    part === undefined ? [] : [storableText('table', unquoted(part), NAME_BYTES_MAX)],
  )
  return {
    schema: parts.length === 2 ? (parts[0] as string) : null,
    name: parts.at(-1) as string,
    quoted: parts.map(quoteIdentifier).join('.'),
  }
}

function unquoted(part: string): string {
  return part.startsWith('"') ? part.slice(1, -1).replaceAll('""', '"') : part
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
