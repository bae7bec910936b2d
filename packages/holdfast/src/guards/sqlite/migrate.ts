/** Creates the guard's table, once, however many processes start at the same time. */
import type { SqliteDatabase, SqliteRow } from '../../clients/sqlite.ts'
import { sqliteCode } from '../../clients/sqlite-errors.ts'
import { BackendUnavailableError, InvalidArgumentError } from '../../core/errors.ts'
import { Bound } from '../shared/bound.ts'
import { briefly } from './brief.ts'
import { firstRow, statementOf } from './connection.ts'
import { alone, bounded, type Parts } from './parts.ts'
import { ddlOf, FENCES_COLUMNS, fencesTable, SCHEMA_VERSION, schemaVersionOf } from './schema.ts'

export async function migrate<Db extends SqliteDatabase>(parts: Parts<Db>): Promise<void> {
  const { db, settings, seams } = parts
  const { tablePrefix } = settings
  const table = fencesTable(tablePrefix)
  const bound = new Bound(null, settings.timeoutMs, seams)
  const look = (): boolean => isComplete(db, tablePrefix)
  // Where all is there, a connection that may only read needs no more.
  const looks = () => bounded(parts, table, bound, look)
  const isThere = await alone(parts, table, bound, looks, 'reads')
  if (isThere) return
  await briefly(parts, table, bound, () => {
    if (!look()) db.exec(ddlOf(tablePrefix))
  }).catch((error: unknown) => {
    throw mayNotCreate(tablePrefix, error)
  })
}

function mayNotCreate(tablePrefix: string, error: unknown): unknown {
  const cause = error instanceof BackendUnavailableError ? error.cause : error
  if (sqliteCode(cause) !== 'READONLY') return error
  // The last line is a comment, with whatever the error puts behind it: all of it can be pasted.
  const advice = `SQLite: the table ${fencesTable(tablePrefix)} is missing, and this connection may only read; run this on one that may write:
${ddlOf(tablePrefix)}-- guard.check() then says whether anything is left`
  return new BackendUnavailableError('read-only', advice, { cause })
}

/** What stands in the file under the name of the guard's table; null: nothing. */
export type TableFacts = Readonly<{
  schemaVersion: number
  isStrict: boolean
  columns: ReadonlySet<string>
}>

export function tableFacts(db: SqliteDatabase, tablePrefix: string): TableFacts | null {
  const table = fencesTable(tablePrefix)
  const sql = 'SELECT sql FROM main.sqlite_schema WHERE name = ? COLLATE NOCASE'
  const made = firstRow(db, sql, table)
  if (made === undefined) return null
  const infos = "SELECT name, type FROM pragma_table_info(?, 'main')"
  const columns = statementOf(db, infos).all(table) as SqliteRow[]
  const lists = "SELECT strict FROM pragma_table_list(?) WHERE schema = 'main'"
  const isStrict = Number(firstRow(db, lists, table)?.['strict']) === 1
  return {
    // One that was made without the comment has the shape of the first.
    schemaVersion: schemaVersionOf(String(made['sql'])) ?? 1,
    isStrict,
    columns: new Set(columns.map(({ name }) => String(name))),
  }
}

/** @throws InvalidArgumentError when there is a table of that name that this version cannot use. */
function isComplete(db: SqliteDatabase, tablePrefix: string): boolean {
  const facts = tableFacts(db, tablePrefix)
  if (facts === null) return false
  const [problem] = problemsOf(tablePrefix, facts)
  if (problem === undefined) return true
  throw new InvalidArgumentError(
    'tablePrefix',
    tablePrefix,
    `one whose table is the guard's: ${problem}`,
  )
}

/** Why this version cannot use what stands there, a sentence each. */
export function problemsOf(
  tablePrefix: string,
  { schemaVersion, isStrict, columns }: TableFacts,
): readonly string[] {
  const table = fencesTable(tablePrefix)
  const problems = FENCES_COLUMNS.filter((name) => !columns.has(name)).map(
    (name) => `${table} has no column "${name}"`,
  )
  if (!isStrict) problems.push(`${table} is not STRICT: a token could be kept as something else`)
  if (schemaVersion > SCHEMA_VERSION) {
    problems.push(
      `${table} has schema version ${schemaVersion}, and this version of Holdfast knows ${SCHEMA_VERSION}`,
    )
  }
  return problems
}
