/**
 * What PostgreSQL's catalogs say of a table. Every role may read them, whatever it may do with the
 * table itself.
 */
import type { Session } from './session.ts'

/** Of one column: its type, and what the session's role may do with it. */
export type ColumnFacts = Readonly<{
  type: string
  select: boolean
  insert: boolean
  update: boolean
}>

export type TableFacts = Readonly<{
  schema: string
  /** Null: the table has none. */
  comment: string | null
  /** Whether the role may use the schema. */
  usage: boolean
  columns: ReadonlyMap<string, ColumnFacts>
  /** Names of its checks. */
  checks: readonly string[]
  /** Columns that are unique by themselves, each in an index over the whole table, at every moment. */
  unique: readonly string[]
  /** Constraints over one column alone, unique but not at every moment: their names by the column's. */
  deferrable: ReadonlyMap<string, string>
}>

const LISTED = `
  SELECT n.nspname AS schema, CAST(c.oid AS text) AS oid,
    obj_description(c.oid, 'pg_class') AS comment,
    CAST(has_schema_privilege(n.oid, 'USAGE') AS text) AS usage
  FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
  WHERE c.relname = $1 AND c.relkind IN ('r', 'p', 'v', 'f')`
const IN_SCHEMA = `${LISTED} AND n.nspname = $2`
/** As an unqualified name is looked up. */
const VISIBLE = `${LISTED} AND pg_table_is_visible(c.oid)`

const COLUMNS = `
  SELECT a.attname AS name, format_type(a.atttypid, a.atttypmod) AS type,
    CAST(has_column_privilege(a.attrelid, a.attnum, 'SELECT') AS text) AS selectable,
    CAST(has_column_privilege(a.attrelid, a.attnum, 'INSERT') AS text) AS insertable,
    CAST(has_column_privilege(a.attrelid, a.attnum, 'UPDATE') AS text) AS updatable
  FROM pg_attribute a
  WHERE a.attrelid = CAST($1 AS oid) AND a.attnum > 0 AND NOT a.attisdropped`

const CHECKS = `
  SELECT conname AS name FROM pg_constraint WHERE conrelid = CAST($1 AS oid) AND contype = 'c'`

const UNIQUE = `
  SELECT a.attname AS name
  FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]
  WHERE i.indrelid = CAST($1 AS oid) AND i.indisunique AND i.indisvalid AND i.indimmediate
    AND i.indnkeyatts = 1 AND i.indpred IS NULL`

const DEFERRABLE = `
  SELECT a.attname AS name, c.conname AS constraint
  FROM pg_constraint c JOIN pg_attribute a ON a.attrelid = c.conrelid AND a.attnum = c.conkey[1]
  WHERE c.conrelid = CAST($1 AS oid) AND c.contype IN ('p', 'u') AND c.condeferrable
    AND cardinality(c.conkey) = 1
  ORDER BY c.conname DESC`

/**
 * @param schema Null: wherever the session's search path finds the table.
 * @returns Null: there is no such table.
 */
export async function tableFacts(
  session: Session<unknown>,
  schema: string | null,
  name: string,
  answerMs: number,
): Promise<TableFacts | null> {
  const ask = async (text: string, values: string[]) =>
    (await session.send(text, values, answerMs)).rows
  const [listed] = await (schema === null ? ask(VISIBLE, [name]) : ask(IN_SCHEMA, [name, schema]))
  if (listed === undefined) return null
  const { comment, usage } = listed
  const oid = [String(listed['oid'])]
  const columns = (await ask(COLUMNS, oid)).map(
    (row) =>
      [
        String(row['name']),
        {
          type: String(row['type']),
          select: row['selectable'] === 'true',
          insert: row['insertable'] === 'true',
          update: row['updatable'] === 'true',
        },
      ] as const,
  )
  const namesOf = async (text: string) => (await ask(text, oid)).map((row) => String(row['name']))
  return {
    schema: String(listed['schema']),
    comment: typeof comment === 'string' ? comment : null,
    usage: usage === 'true',
    columns: new Map(columns),
    checks: await namesOf(CHECKS),
    unique: await namesOf(UNIQUE),
    deferrable: new Map(
      (await ask(DEFERRABLE, oid)).map((row) => [String(row['name']), String(row['constraint'])]),
    ),
  }
}

/** Whose rights the facts tell. */
export async function currentRole(session: Session<unknown>, answerMs: number): Promise<string> {
  const { rows } = await session.send('SELECT current_user AS role', undefined, answerMs)
  return String(rows[0]?.['role'])
}
