/**
 * A file of SQLite as the scenarios use it, and as a program without Holdfast would: statements one
 * at a time, asked again by a timer while another process has the file's write lock.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { SqliteDatabase, SqliteStatement } from 'holdfast/sqlite'
import type { Answer, Database, Queryable } from './database.ts'
import { type OpenDatabase, sqliteDriver } from './sqlite-driver.ts'

/** While it is opened, when dozens of processes set it up at once. */
const OPEN_BUSY_MS = 10_000
/** A holder that stands still in a transaction keeps the file for its whole pause. */
const BUSY_MS_MAX = 20_000
const RETRY_MS_FIRST = 5
const RETRY_MS_MAX = 20
/** SQLITE_BUSY and SQLITE_LOCKED, without what is added to them. */
const IN_THE_WAY = [5, 6]

/** @param role What `application_name()` says on this connection, to whoever keeps a log. */
export function openFile(path: string, role: string): OpenDatabase {
  const db = sqliteDriver().open(path)
  db.exec(`PRAGMA busy_timeout = ${OPEN_BUSY_MS}`)
  switchToWal(db)
  db.exec('PRAGMA synchronous = FULL')
  // Where the driver was built without trust, a trigger may not call a function of ours.
  db.exec('PRAGMA trusted_schema = ON')
  db.function('application_name', () => role)
  db.exec('PRAGMA busy_timeout = 0')
  return db
}

/** `busy_timeout` does not hold for it: while another process writes to a new file it is refused at once. */
function switchToWal(db: SqliteDatabase): void {
  const giveUpAtMs = performance.now() + OPEN_BUSY_MS
  const cell = new Int32Array(new SharedArrayBuffer(4))
  for (;;) {
    try {
      db.exec('PRAGMA journal_mode = WAL')
      return
    } catch (error) {
      if (!isInTheWay(error) || performance.now() > giveUpAtMs) throw error
    }
    Atomics.wait(cell, 0, 0, RETRY_MS_FIRST)
  }
}

export function databaseOn(db: SqliteDatabase): Database {
  const statements = new Map<string, SqliteStatement>()
  const prepare = (sql: string): SqliteStatement => {
    const kept = statements.get(sql) ?? db.prepare(sql)
    statements.set(sql, kept)
    return kept
  }
  const { query } = queryableOn({ prepare })
  return {
    dialect: 'sqlite',
    query: (text, values) => notBusy(() => query(text, values)),
    createOnce: (table, ddl) => notBusy(async () => createIn(db, table, ddl)),
  }
}

/** One try; inside a transaction that has the write lock nothing is in the way. */
export function queryableOn(db: Pick<SqliteDatabase, 'prepare'>): Queryable {
  return {
    query: async <Row>(text: string, values: readonly unknown[] = []) => run<Row>(db, text, values),
  }
}

function createIn(db: SqliteDatabase, table: string, ddl: string): void {
  db.exec('BEGIN IMMEDIATE')
  try {
    const found = db.prepare('SELECT 1 FROM sqlite_schema WHERE name = ?').get(table)
    if (found === undefined) db.exec(ddl)
    db.exec('COMMIT')
  } catch (error) {
    db.exec('ROLLBACK')
    throw error
  }
}

function run<Row>(
  db: Pick<SqliteDatabase, 'prepare'>,
  text: string,
  values: readonly unknown[],
): Answer<Row> {
  const ordered: unknown[] = []
  const sql = text.replace(/\$(\d+)/g, (_, number: string) => {
    ordered.push(values[Number(number) - 1] ?? null)
    return '?'
  })
  const statement = db.prepare(sql)
  if (/^\s*SELECT\b|\bRETURNING\b/i.test(sql)) {
    const rows = statement.all(...ordered) as Row[]
    return { rows, rowCount: rows.length }
  }
  return { rows: [], rowCount: Number(statement.run(...ordered).changes) }
}

/** Asks again by timers, so that the process is served meanwhile. */
async function notBusy<T>(act: () => Promise<T>): Promise<T> {
  const giveUpAtMs = performance.now() + BUSY_MS_MAX
  for (let delayMs = RETRY_MS_FIRST; ; delayMs = Math.min(2 * delayMs, RETRY_MS_MAX)) {
    try {
      return await act()
    } catch (error) {
      if (!isInTheWay(error) || performance.now() > giveUpAtMs) throw error
    }
    await sleep(delayMs)
  }
}

/** better-sqlite3 tells the name of the code, node:sqlite its number. */
function isInTheWay(error: unknown): boolean {
  const { code, errcode } = error as { code?: unknown; errcode?: unknown }
  if (typeof errcode === 'number') return IN_THE_WAY.includes(errcode & 0xff)
  return typeof code === 'string' && /^SQLITE_(BUSY|LOCKED)/.test(code)
}
