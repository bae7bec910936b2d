/** Whether everything is there that the guard needs: what is missing, each by its name. */
import { rollBack, type SqliteDatabase } from '../../clients/sqlite.ts'
import { sqliteCode } from '../../clients/sqlite-errors.ts'
import { Bound } from '../shared/bound.ts'
import type { TableName } from '../shared/columns.ts'
import { columnsDdl, columnsOf, missingColumns, readTable } from './columns.ts'
import { problemsOf, tableFacts } from './migrate.ts'
import { alone, bounded, type Parts } from './parts.ts'
import { ddlOf, fencesTable } from './schema.ts'
import { pragma, refuseTransaction } from './settings.ts'

/** What `check` found. */
export interface SqliteCheck {
  /** Of the guard's table; null: there is no such table. */
  readonly schemaVersion: number | null
  /** What is missing or wrong, a sentence each. None: everything that the guard needs is there. */
  readonly problems: readonly string[]
  /** Text that repairs what can be repaired without looking at your data first; empty: nothing. */
  readonly ddl: string
}

/** @throws InvalidArgumentError, BackendUnavailableError, GuardBusyError. */
export async function check<Db extends SqliteDatabase>(
  parts: Parts<Db>,
  tables: readonly string[],
): Promise<SqliteCheck> {
  const named = tables.map(readTable)
  const { settings, seams } = parts
  const bound = new Bound(null, settings.timeoutMs, seams)
  const table = fencesTable(settings.tablePrefix)
  return alone(parts, table, bound, () =>
    bounded(parts, table, bound, () => findings(parts, named)),
  )
}

function findings<Db extends SqliteDatabase>(
  { db, settings }: Parts<Db>,
  named: readonly TableName[],
): SqliteCheck {
  const { tablePrefix, columns } = settings
  const problems: string[] = []
  let ddl = ''
  const facts = tableFacts(db, tablePrefix)
  if (facts === null) {
    problems.push(`the table ${fencesTable(tablePrefix)} is missing`)
    ddl += ddlOf(tablePrefix)
  } else {
    problems.push(...problemsOf(tablePrefix, facts))
  }
  for (const table of named) {
    const found = columnsOf(db, table)
    if (found.size === 0) {
      problems.push(`the table ${table.quoted} is missing`)
      continue
    }
    for (const [name, type] of missingColumns(columns, found)) {
      problems.push(`${table.quoted} has no column "${name}" (${type})`)
    }
    ddl += columnsDdl(table, columns, found)
  }
  if (isReadOnly(db)) problems.push('this connection may only read')
  if (String(pragma(db, 'main.journal_mode')) === 'off') {
    problems.push('journal_mode is OFF: nothing could be rolled back')
  }
  return { schemaVersion: facts?.schemaVersion ?? null, problems, ddl }
}

/** Takes the write lock for a moment, and writes nothing. */
function isReadOnly(db: SqliteDatabase): boolean {
  // Of whoever has one open, it would be the end.
  refuseTransaction(db)
  try {
    db.exec('BEGIN IMMEDIATE')
    return Number(pragma(db, 'query_only')) === 1
  } catch (error) {
    if (sqliteCode(error) === 'READONLY') return true
    throw error
  } finally {
    rollBack(db)
  }
}
