/** A folder for one file of locks, and backends on it: a connection each, which is one process to SQLite. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { SqliteOptions } from '../../src/backends/sqlite/options.ts'
import { type SqliteLimits, sqliteBackendWith } from '../../src/backends/sqlite/sqlite-backend.ts'
import { prepared, type SqliteRow } from '../../src/clients/sqlite.ts'
import type { Backend } from '../../src/core/backend.ts'
import { type Seams, systemSeams } from '../../src/core/seams.ts'
import type { OpenBackends } from '../../src/testkit/backend-harness.ts'
import type { OpenDatabase, SqliteDriver } from './sqlite-drivers.ts'

/** The clock's grain, at both ends of an interval, and rounding. */
export const ROUNDING_MS = 22

export class LockFile {
  readonly folder: string = mkdtempSync(join(tmpdir(), 'holdfast-sqlite-'))
  readonly path: string = join(this.folder, 'locks.db')
  readonly #driver: SqliteDriver
  readonly #opened: OpenDatabase[] = []
  readonly #backends: Backend[] = []

  constructor(driver: SqliteDriver) {
    this.#driver = driver
  }

  database(): OpenDatabase {
    const db = this.#driver.open(this.path)
    this.#opened.push(db)
    return db
  }

  backend(
    options: SqliteOptions = {},
    limits: SqliteLimits = {},
    seams: Seams = systemSeams,
  ): Backend {
    const backend = sqliteBackendWith(seams, this.database(), options, limits)
    this.#backends.push(backend)
    return backend
  }

  /** None where the tables were not made yet. */
  rows(table: string): SqliteRow[] {
    const db = this.#opened[0] ?? this.database()
    const name = `holdfast_${table}`
    const found = prepared(db, 'SELECT 1 FROM sqlite_master WHERE name = ?').get(name)
    return found === undefined ? [] : (prepared(db, `SELECT * FROM ${name}`).all() as SqliteRow[])
  }

  async close(): Promise<void> {
    for (const backend of this.#backends) await backend.close()
    for (const db of this.#opened) db.close()
    rmSync(this.folder, { recursive: true, force: true })
  }
}

export async function openPair(
  driver: SqliteDriver,
  options: SqliteOptions = {},
): Promise<OpenBackends> {
  const stand = new LockFile(driver)
  return {
    ours: stand.backend(options),
    theirs: stand.backend(options),
    withoutEnd: async () => {
      const rows = ['locks', 'queue', 'cancelled'].flatMap((table) => stand.rows(table))
      return rows
        .filter((row) => !(Number(row['ends_at_ms']) > 0))
        .map((row) => JSON.stringify(row))
    },
    close: () => stand.close(),
  }
}
