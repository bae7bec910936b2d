/**
 * The column form: a write of one row that carries the fence in the row itself.
 *
 * Guarantees: after a write with a token, no write with a smaller one is applied to that row; no call is
 * applied twice. Whatever this rejects with was not applied, OutcomeUnknownError excepted. Does not
 * guarantee anything for what was read before: see `SqliteGuard.update`.
 */
import type { SqliteDatabase, SqliteRow } from '../../clients/sqlite.ts'
import { asSqliteError, isBusy, sqliteCode } from '../../clients/sqlite-errors.ts'
import { InvalidArgumentError, LockError } from '../../core/errors.ts'
import type { Call } from '../shared/call.ts'
import { refusalOf } from '../shared/column-refusal.ts'
import type { ReadWrite } from '../shared/column-write.ts'
import { columnStatements, type Statement } from './column-statements.ts'
import { readTable } from './columns.ts'
import { statementOf } from './connection.ts'
import { refuseByLockRow } from './lock-row.ts'
import type { GuardSettings } from './options.ts'

/**
 * `applied`: by this call, once. `already-applied`: by an earlier call with the same `op`, which is
 * still the last one on that row. `missing-row`: `where` finds none, and nothing was written.
 */
export type SqliteUpdateResult = 'applied' | 'already-applied' | 'missing-row'

/** Inside a transaction, all of it synchronous. */
export function updateOn(
  db: SqliteDatabase,
  { tablePrefix, columns }: GuardSettings,
  call: Pick<Call, 'claim' | 'fenced'>,
  write: ReadWrite,
): SqliteUpdateResult {
  const statements = columnStatements(write, call.claim, columns)
  try {
    refuseByLockRow(db, tablePrefix, call.claim, call.fenced)
    refuseView(db, write)
    // Triggers and foreign keys are not counted.
    if (Number(run(db, statements.write).changes) > 0) return 'applied'
    const { text, values } = statements.read
    const rows = statementOf(db, text).all(...values) as SqliteRow[]
    const { kind } = refusalOf({ call, write }, statements.adoption, rows)
    if (kind === 'missing') return 'missing-row'
    if (kind === 'repeat') return 'already-applied'
  } catch (error) {
    throw explain(write, error)
  }
  const allowed = 'one whose triggers let the write through: RAISE(IGNORE) left it out'
  throw new InvalidArgumentError('table', write.table, allowed)
}

function run(db: SqliteDatabase, { text, values }: Statement): { changes: number | bigint } {
  return statementOf(db, text).run(...values)
}

/** Tables that were looked at. Nobody makes a view of a table while a program writes it. */
const tables = new WeakMap<SqliteDatabase, Set<string>>()
const TABLES_MAX = 1000

/** What an INSTEAD OF trigger makes of a write is not counted, and need not keep the columns. */
function refuseView(db: SqliteDatabase, { table }: ReadWrite): void {
  const known = tables.get(db) ?? new Set()
  if (known.has(table)) return
  const { schema, name } = readTable(table)
  const sql = "SELECT schema FROM pragma_table_list(?) WHERE type = 'view'"
  const views = statementOf(db, sql).all(name) as SqliteRow[]
  if (views.some((view) => schema === null || view['schema'] === schema.toLowerCase())) {
    throw new InvalidArgumentError('table', table, 'a table, not a view')
  }
  if (known.size >= TABLES_MAX) known.clear()
  tables.set(db, known.add(table))
}

/** What the caller is told of a statement that SQLite refused: nothing was applied. */
function explain({ table }: ReadWrite, error: unknown): unknown {
  if (error instanceof LockError || isBusy(error)) return error
  const { message } = error as Error
  if (/^(?:no such table|unknown database)/.test(message)) {
    return new InvalidArgumentError('table', table, `a table that exists: ${message}`)
  }
  if (/^no such column/.test(message)) {
    const allowed = `one with these columns and the guard's (guard.ddlFor(table) adds those): ${message}`
    return new InvalidArgumentError('table', table, allowed)
  }
  // A constraint or trigger of the user's, a value that has no type here.
  const isOurs = /^(?:READONLY|FULL|NOMEM|IOERR|CORRUPT|NOTADB|CANTOPEN|PERM|AUTH|INTERRUPT)$/.test(
    sqliteCode(error) ?? '',
  )
  return isOurs ? asSqliteError(error, 'a write') : error
}
