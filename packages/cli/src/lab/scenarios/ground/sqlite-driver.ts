/**
 * The driver of SQLite: better-sqlite3 where it loads, else the one that is part of Node from 22.13.
 *
 * better-sqlite3 is an optional dependency, compiled for one Node: it may be absent, or be another
 * Node's. HOLDFAST_BETTER_SQLITE3 names a `better_sqlite3.node` that was built for this one.
 */
import { createRequire } from 'node:module'
import type { SqliteDatabase } from 'holdfast/sqlite'

export interface OpenDatabase extends SqliteDatabase {
  /** Makes a function of SQL, of this connection. */
  function(name: string, act: () => string): unknown
  close(): unknown
}

export interface SqliteDriver {
  readonly name: 'better-sqlite3' | 'node:sqlite'
  /** Of SQLite itself. */
  readonly version: string
  open(path: string): OpenDatabase
}

type Constructor = new (path: string, options: Record<string, unknown>) => OpenDatabase

const require = createRequire(import.meta.url)

const REMEDY = 'use Node 22.13 or newer, or a better-sqlite3 12 that was built for this one'

/** @throws Error that says in one line why neither loads, and what helps. */
export function sqliteDriver(): SqliteDriver {
  const reasons: string[] = []
  for (const load of [loadBetterSqlite3, loadNodeSqlite]) {
    try {
      return load()
    } catch (error) {
      reasons.push(firstLineOf(error))
    }
  }
  const why = [...reasons, REMEDY].join('; ')
  throw new Error(`no driver of SQLite loads under Node ${process.version}: ${why}`)
}

/** In one line why nothing here can work on files of SQLite, or null. */
export function whyNoSqlite(): string | null {
  try {
    sqliteDriver()
    return null
  } catch (error) {
    return firstLineOf(error)
  }
}

function loadBetterSqlite3(): SqliteDriver {
  const Database = require('better-sqlite3') as Constructor
  const addon = process.env['HOLDFAST_BETTER_SQLITE3']
  return driverOf('better-sqlite3', Database, addon ? { nativeBinding: addon } : {})
}

function loadNodeSqlite(): SqliteDriver {
  const { DatabaseSync } = withoutWarning(() => require('node:sqlite')) as NodeSqlite
  return driverOf('node:sqlite', DatabaseSync, {})
}

interface NodeSqlite {
  readonly DatabaseSync: Constructor
}

/** Some versions warn that theirs is an experiment: stderr is for what concerns this one. */
function withoutWarning<T>(act: () => T): T {
  const { emitWarning } = process
  process.emitWarning = () => {}
  try {
    return act()
  } finally {
    process.emitWarning = emitWarning
  }
}

/** The program of a driver is loaded when the first database is opened. */
function driverOf(
  name: SqliteDriver['name'],
  Driver: Constructor,
  options: Record<string, unknown>,
): SqliteDriver {
  const probe = new Driver(':memory:', options)
  const row = probe.prepare('SELECT sqlite_version() AS version').get() as { version: string }
  probe.close()
  return { name, version: row.version, open: (path) => new Driver(path, options) }
}

function firstLineOf(error: unknown): string {
  return String(error instanceof Error ? error.message : error).split('\n')[0] ?? ''
}
