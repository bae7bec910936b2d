/** SQLite files in a folder of their own, and guards on them with connections of their own. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { systemSeams } from '../../src/core/seams.ts'
import { type SqliteGuard, sqliteGuardWith } from '../../src/guards/sqlite/guard.ts'
import type { SqliteGuardOptions } from '../../src/guards/sqlite.ts'
import type {
  GuardHarness,
  GuardRequest,
  OpenGuard,
} from '../../src/testkit/guard-suite-harness.ts'
import type { OpenDatabase, SqliteDriver } from './sqlite-drivers.ts'

export type OpenSqlite = OpenGuard<OpenDatabase> & {
  readonly guard: SqliteGuard<OpenDatabase>
  /** The guard's own connection, and another one that sees what is committed. */
  readonly db: OpenDatabase
  readonly other: OpenDatabase
}

export interface SqliteStand {
  readonly folder: string
  readonly path: string
  /** Another connection to the file, closed with the stand. */
  connect(): OpenDatabase
  open(request?: GuardRequest, options?: SqliteGuardOptions): Promise<OpenSqlite>
  stop(): void
}

/** Rows of the column form. What is written to one is noted by the database, in the order of commits. */
const TABLES = `
  CREATE TABLE IF NOT EXISTS entries (id INTEGER PRIMARY KEY, resource TEXT, entry TEXT);
  CREATE TABLE IF NOT EXISTS written (id TEXT PRIMARY KEY, value TEXT);
  CREATE TRIGGER IF NOT EXISTS note AFTER UPDATE ON written BEGIN
    INSERT INTO entries (resource, entry) VALUES (NEW.id, NEW.value); END`

export async function startSqliteStand(
  driver: SqliteDriver,
  journal: 'WAL' | 'DELETE' = 'WAL',
): Promise<SqliteStand> {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-sqlite-'))
  const path = join(folder, 'data.db')
  const opened: OpenDatabase[] = []
  const connect = (): OpenDatabase => {
    const db = driver.open(path)
    opened.push(db)
    return db
  }
  const first = connect()
  first.exec(`PRAGMA journal_mode = ${journal}; ${TABLES}`)
  const guard = sqliteGuardWith(first, {})
  await guard.migrate()
  first.exec(guard.ddlFor('written'))
  return {
    folder,
    path,
    connect,
    open: async (request = {}, options = {}) => openGuard(connect, request, options),
    stop() {
      for (const db of opened) closed(db)
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

export function sqliteHarness(
  driver: SqliteDriver,
  journal: 'WAL' | 'DELETE',
  stand: () => SqliteStand,
): GuardHarness<OpenDatabase> {
  return {
    title: `SQLite by ${driver.name}, journal_mode ${journal}`,
    port: () => null,
    isCommit: () => false,
    isolations: ['serializable'],
    outlivesFailures: true,
    open: (request) => stand().open(request),
  }
}

function openGuard(
  connect: () => OpenDatabase,
  { nonce, timeoutMs, resource }: GuardRequest,
  options: SqliteGuardOptions,
): OpenSqlite {
  const db = connect()
  const other = connect()
  const seams = nonce === undefined ? systemSeams : { ...systemSeams, nonce }
  const guard = sqliteGuardWith(db, { timeoutMs, resource, ...options }, seams)
  return {
    guard,
    db,
    other,
    column: {
      async add(id) {
        other.prepare('INSERT INTO written (id) VALUES (?)').run(id)
      },
      update: (lease, id, value, { op, tx } = {}) =>
        guard.update(lease, { table: 'written', where: { id }, set: { value }, op }, tx),
      history: async (id) => readEntries(other, id),
    },
    async append(tx, resource, entry) {
      tx.prepare('INSERT INTO entries (resource, entry) VALUES (?, ?)').run(resource, entry)
    },
    entriesIn: async (tx, resource) => readEntries(tx, resource),
    entries: async (resource) => readEntries(other, resource),
    fail: async (tx) => tx.prepare('SELECT abs(-9223372036854775807 - 1)').get(),
    async begin() {
      const tx = connect()
      tx.exec('BEGIN')
      return {
        tx,
        commit: async () => void tx.exec('COMMIT'),
        rollBack: async () => void tx.exec('ROLLBACK'),
      }
    },
    async close() {
      closed(db)
      closed(other)
    },
  }
}

export function readEntries(db: OpenDatabase, resource: string): readonly string[] {
  const text = 'SELECT entry FROM entries WHERE resource = ? ORDER BY id'
  return (db.prepare(text).all(resource) as { entry: string }[]).map(({ entry }) => entry)
}

/** Closing twice is an error in one driver. */
function closed(db: OpenDatabase): void {
  try {
    db.close()
  } catch {
    // It is closed.
  }
}
