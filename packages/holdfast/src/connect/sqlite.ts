/** A SQLite file by its URL: opened, made if it is not there, and closed with the locks. */
import { existsSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import { readSqliteOptions, type SqliteOptions } from '../backends/sqlite/options.ts'
import { sqliteBackend } from '../backends/sqlite/sqlite-backend.ts'
import type { SqliteDatabase } from '../clients/sqlite.ts'
import { asSqliteError } from '../clients/sqlite-errors.ts'
import { BackendUnavailableError, InvalidArgumentError } from '../core/errors.ts'
import type { Driver } from './drivers.ts'
import type { Given } from './options.ts'
import type { Store } from './store.ts'
import { decoded, shownPath, type UrlParts } from './url.ts'

type OwnDatabase = SqliteDatabase & { close(): unknown }
type Constructor = new (path: string) => OwnDatabase

export interface SqliteTarget {
  /** Absolute. */
  readonly path: string
  readonly options: SqliteOptions
}

/** Asked for once, so that a file that cannot be used is found now and not at the first lock. */
const ANY_NAME = 'connect'

/** @throws InvalidArgumentError naming the part or the option that is wrong. */
export function readSqliteTarget({ authority, path }: UrlParts, given: Given): SqliteTarget {
  if (authority !== null && authority !== '') {
    const allowed = 'a path without a host: sqlite:./locks.db, or sqlite:///var/lib/locks.db'
    throw new InvalidArgumentError('url path', shownPath(`//${authority}${path}`), allowed)
  }
  const plain = decoded('url path', path)
  if (plain === '' || plain === ':memory:' || plain.endsWith('/')) {
    const allowed = 'the path of a file; for locks within one process there is memory:'
    throw new InvalidArgumentError('url path', shownPath(plain), allowed)
  }
  if (plain !== plain.trimEnd()) {
    // better-sqlite3 cuts it off and node:sqlite does not: of two programs each would have its own file.
    throw new InvalidArgumentError('url path', shownPath(plain), 'one that ends in no white space')
  }
  const { synchronous, tablePrefix, networkFileSystem } = given as SqliteOptions
  const options = { synchronous, tablePrefix, networkFileSystem }
  readSqliteOptions(options)
  return { path: resolve(plain), options }
}

export async function openSqlite({ path, options }: SqliteTarget, driver: Driver): Promise<Store> {
  const folder = dirname(path)
  if (!existsSync(folder)) {
    const text = `the folder ${shownPath(folder)} does not exist, and is not made; the file in it would be`
    throw new BackendUnavailableError('down', text)
  }
  const database = openDatabase(path, driver)
  const end = (): void => {
    database.close()
  }
  try {
    const backend = sqliteBackend(database, options)
    await backend.inspect(ANY_NAME)
    return { backend, end }
  } catch (error) {
    end()
    throw error
  }
}

function openDatabase(path: string, { name, module }: Driver): OwnDatabase {
  const { DatabaseSync } = module as { DatabaseSync?: Constructor }
  const Database = name === 'node:sqlite' ? DatabaseSync : module
  try {
    return new (Database as Constructor)(path)
  } catch (error) {
    throw asSqliteError(error, `the opening of ${shownPath(path)}`)
  }
}
