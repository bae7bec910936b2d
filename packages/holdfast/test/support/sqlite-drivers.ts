/**
 * The drivers of SQLite that load under the running Node: the same tests with each.
 *
 * better-sqlite3 is compiled for one Node; HOLDFAST_BETTER_SQLITE3 names a `better_sqlite3.node` that
 * was built for another. node:sqlite is part of Node from 22.13.
 */
import { createRequire } from 'node:module'
import { it } from 'vitest'
import type { SqliteDatabase } from '../../src/clients/sqlite.ts'

export interface OpenDatabase extends SqliteDatabase {
  close(): unknown
}

export interface SqliteDriver {
  readonly name: 'better-sqlite3' | 'node:sqlite'
  /** `settings` are the driver's own: `readonly` of one is `readOnly` of the other. */
  open(path: string, settings?: { readOnly?: boolean; bigInts?: boolean }): OpenDatabase
}

const require = createRequire(import.meta.url)

/**
 * None where the set-up has found that none can be had, which HOLDFAST_NO_SQLITE says: then the file
 * that asks has one test instead, left out with the reason.
 *
 * @throws Error when none loads and nothing says why: tests of SQLite are not left out by accident.
 */
export function sqliteDrivers(): SqliteDriver[] {
  const refusals: string[] = []
  const drivers: SqliteDriver[] = []
  for (const load of [loadBetterSqlite3, loadNodeSqlite]) {
    try {
      drivers.push(load())
    } catch (error) {
      refusals.push(error instanceof Error ? error.message : String(error))
    }
  }
  if (drivers.length > 0) return drivers
  const why = process.env['HOLDFAST_NO_SQLITE']
  if (why) {
    it('SQLite', ({ skip }) => skip(why))
    return drivers
  }
  throw new Error(`no driver of SQLite loads under Node ${process.version}: ${refusals.join('; ')}`)
}

/** What is common to the constructors of both drivers. */
type Constructor = new (path: string, options: Record<string, unknown>) => OpenDatabase

function loadBetterSqlite3(): SqliteDriver {
  const Database = require('better-sqlite3') as Constructor
  const addon = process.env['HOLDFAST_BETTER_SQLITE3']
  const nativeBinding = addon ? { nativeBinding: addon } : {}
  // The addon is loaded when the first database is opened.
  new Database(':memory:', nativeBinding).close()
  return {
    name: 'better-sqlite3',
    open(path, { readOnly = false, bigInts = false } = {}) {
      const db = new Database(path, { readonly: readOnly, ...nativeBinding })
      if (bigInts) (db as unknown as { defaultSafeIntegers(): void }).defaultSafeIntegers()
      return db
    },
  }
}

function loadNodeSqlite(): SqliteDriver {
  const { DatabaseSync } = require('node:sqlite') as { DatabaseSync: Constructor }
  return {
    name: 'node:sqlite',
    open: (path, { readOnly = false, bigInts = false } = {}) =>
      // Known from Node 24; before, the settings of each statement are all there is.
      new DatabaseSync(path, { readOnly, ...(bigInts ? { readBigInts: true } : {}) }),
  }
}
