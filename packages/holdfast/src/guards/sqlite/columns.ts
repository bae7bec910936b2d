/**
 * The column form's five columns in a table of the user's.
 *
 *     fence         INTEGER  the largest fencing token that wrote the row
 *     fence_seq     INTEGER  how many writes of that token the row has seen
 *     fence_owner   TEXT     whose token it is
 *     fence_op      TEXT     which call was last
 *     fence_source  TEXT     whose tokens these are
 *
 * All null, a row that nobody has written through the guard, or all set.
 */

import { quoteIdentifier } from '../../clients/sql-names.ts'
import type { SqliteDatabase, SqliteRow } from '../../clients/sqlite.ts'
import { type ColumnNames, type TableName, tableName } from '../shared/columns.ts'
import { statementOf } from './connection.ts'
import { NAME_BYTES_MAX } from './options.ts'

const TYPES: ColumnNames = {
  fence: 'INTEGER',
  seq: 'INTEGER',
  owner: 'TEXT',
  op: 'TEXT',
  source: 'TEXT',
}

/** @throws InvalidArgumentError. */
export function readTable(table: unknown): TableName {
  return tableName(table, NAME_BYTES_MAX)
}

/** Names of the columns that the table has, in lower case; empty: there is no such table. */
export function columnsOf(db: SqliteDatabase, { schema, name }: TableName): ReadonlySet<string> {
  const sql = 'SELECT name FROM pragma_table_xinfo(?, ?)'
  const rows = statementOf(db, sql).all(name, schema ?? 'main') as SqliteRow[]
  return new Set(rows.map((row) => String(row['name']).toLowerCase()))
}

/** Those of the five that are missing, in the order of the table above. */
export function missingColumns(
  columns: ColumnNames,
  found: ReadonlySet<string>,
): readonly (readonly [name: string, type: string])[] {
  return Object.entries(columns)
    .map(([key, name]) => [name, TYPES[key as keyof ColumnNames]] as const)
    .filter(([name]) => !found.has(name.toLowerCase()))
}

/**
 * Adds what is missing of the columns; empty: nothing is.
 *
 * SQLite adds one column in a statement, and a check only with a column: the last one carries that of
 * all five. It rewrites nothing; the check reads the table once.
 */
export function columnsDdl(
  table: TableName,
  columns: ColumnNames,
  found: ReadonlySet<string>,
): string {
  const missing = missingColumns(columns, found)
  return missing
    .map(([name, type], index) => {
      const check = index === missing.length - 1 ? `\n  ${checkOf(columns)}` : ''
      return `ALTER TABLE ${table.quoted} ADD COLUMN ${quoteIdentifier(name)} ${type}${check};\n`
    })
    .join('')
}

function checkOf(columns: ColumnNames): string {
  const [fence = '', seq = '', ...texts] = Object.values(columns).map(quoteIdentifier)
  const empty = [fence, seq, ...texts].map((name) => `${name} IS NULL`).join(' AND ')
  const integers = [fence, seq].map((name) => `typeof(${name}) = 'integer' AND ${name} > 0`)
  const full = [...integers, ...texts.map((name) => `${name} IS NOT NULL`)].join(' AND ')
  return `CHECK ((${empty}) OR (${full}))`
}
