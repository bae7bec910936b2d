/**
 * The guard's table as it is made, and the version of its shape.
 *
 * One row for each resource, kept for ever; what each column is for stands in
 * ../postgres/statements.ts. The version stands in a comment inside of CREATE TABLE, which SQLite
 * keeps with the table, also through a dump. A later version of Holdfast that changes the shape raises
 * it, so that an older one that shares the file says so instead of guessing.
 *
 * STRICT, or a column would keep a token as text or as a rounded number if somebody wrote it so, and
 * the comparison would go by type before value. WITHOUT ROWID: the record is found by one search in
 * one tree.
 */
export const SCHEMA_VERSION = 1

/** The guard's table; `tablePrefix` has been checked, and needs no quotes. */
export function fencesTable(tablePrefix: string): string {
  return `${tablePrefix}fences`
}

export const FENCES_COLUMNS: readonly string[] = [
  'resource',
  'token',
  'owner',
  'seq',
  'op',
  'source',
]

/** What `migrate` runs and `ddl` shows; it may run again. */
export function ddlOf(tablePrefix: string): string {
  return `CREATE TABLE IF NOT EXISTS ${fencesTable(tablePrefix)} (
  /* Holdfast fences, schema version ${SCHEMA_VERSION} */
  resource TEXT PRIMARY KEY NOT NULL,
  token INTEGER NOT NULL CHECK (token > 0),
  owner TEXT NOT NULL,
  seq INTEGER NOT NULL CHECK (seq > 0),
  op TEXT NOT NULL,
  source TEXT NOT NULL
) STRICT, WITHOUT ROWID;
`
}

/** @param sql The text of CREATE TABLE; null: it records no version. */
export function schemaVersionOf(sql: string): number | null {
  const digits = /\bHoldfast fences, schema version (\d{1,9})\b/.exec(sql)?.[1]
  return digits === undefined ? null : Number(digits)
}
