/** The one connection of a guard: what is prepared on it, and whether a transaction is open. */
import {
  prepared,
  type SqliteDatabase,
  type SqliteRow,
  type SqliteStatement,
} from '../../clients/sqlite.ts'

/** Programs write fewer texts by hand; past it, they are prepared anew. */
const PREPARED_MAX = 500

const statements = new WeakMap<SqliteDatabase, Map<string, SqliteStatement>>()

/** A statement that is kept prepared. SQLite itself prepares it anew when the schema changes. */
export function statementOf(db: SqliteDatabase, sql: string): SqliteStatement {
  let known = statements.get(db)
  if (known === undefined) {
    known = new Map()
    statements.set(db, known)
  }
  const kept = known.get(sql)
  if (kept !== undefined) return kept
  const fresh = prepared(db, sql)
  if (known.size >= PREPARED_MAX) known.clear()
  known.set(sql, fresh)
  return fresh
}

export function firstRow(
  db: SqliteDatabase,
  sql: string,
  ...values: readonly unknown[]
): SqliteRow | undefined {
  return statementOf(db, sql).get(...values) as SqliteRow | undefined
}

/** better-sqlite3 says it as `inTransaction`, node:sqlite as `isTransaction`, from Node 22.16. */
type Telling = Readonly<{ inTransaction?: unknown; isTransaction?: unknown }>

/** Whether a transaction is open on the connection; closing it ended that too. */
export function isInTransaction(db: SqliteDatabase): boolean {
  try {
    const { inTransaction, isTransaction } = db as Telling
    if (typeof inTransaction === 'boolean') return inTransaction
    if (typeof isTransaction === 'boolean') return isTransaction
    // Takes no lock, and nothing can come in between.
    db.exec('BEGIN')
    db.exec('COMMIT')
    return false
  } catch (error) {
    return error instanceof Error && /within a transaction/.test(error.message)
  }
}
