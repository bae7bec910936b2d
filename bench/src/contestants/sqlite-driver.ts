/** The SQLite driver that loads under this Node; the bench measures with one. */
import { createRequire } from 'node:module'
import type { SqliteDatabase } from 'holdfast/sqlite'

export interface OpenDatabase extends SqliteDatabase {
  close(): unknown
}

interface SqliteDriver {
  readonly name: 'better-sqlite3' | 'node:sqlite'
  open(path: string): OpenDatabase
}

/** Its message is for the user. */
export class MissingDriverError extends Error {
  override readonly name = 'MissingDriverError'
}

type Constructor = new (path: string) => OpenDatabase

const require = createRequire(import.meta.url)

/** better-sqlite3 if it loads, because every supported Node can have it. */
export function sqliteDriver(): SqliteDriver {
  const reasons: string[] = []
  try {
    const Database = require('better-sqlite3') as Constructor
    // Only now its program is loaded.
    new Database(':memory:').close()
    return { name: 'better-sqlite3', open: (path) => new Database(path) }
  } catch (error) {
    reasons.push(firstLine(error))
  }
  try {
    const { DatabaseSync } = require('node:sqlite') as { DatabaseSync: Constructor }
    return { name: 'node:sqlite', open: (path) => new DatabaseSync(path) }
  } catch (error) {
    reasons.push(firstLine(error))
  }
  throw new MissingDriverError(`no driver of SQLite loads: ${reasons.join('; ')}`)
}

function firstLine(error: unknown): string {
  return String(error instanceof Error ? error.message : error).split('\n')[0] ?? ''
}
