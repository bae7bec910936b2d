/** What a connection must be before a guarded transaction begins on it. */
import { prepared, type SqliteDatabase, type SqliteRow } from '../../clients/sqlite.ts'
import { BackendUnavailableError, InvalidArgumentError } from '../../core/errors.ts'
import { isInTransaction } from './connection.ts'
import type { GuardSettings } from './options.ts'

const FULL = 2

/** Set up once; whoever changes a setting later has decided so. */
const known = new WeakMap<SqliteDatabase, GuardSettings['synchronous']>()

/**
 * Refuses a connection on which a transaction of somebody else is open, and sets up what COMMIT
 * promises.
 *
 * @throws BackendUnavailableError, InvalidArgumentError.
 */
export function prepareConnection(db: SqliteDatabase, { synchronous }: GuardSettings): void {
  refuseTransaction(db)
  if (known.get(db) === synchronous) return
  const journal = pragma(db, 'main.journal_mode')
  if (String(journal) === 'off') {
    const allowed = 'a connection that can roll back: any journal_mode but OFF'
    throw new InvalidArgumentError('database', 'one with journal_mode = OFF', allowed)
  }
  // Said even where it is read already: a level that is only the default falls, to NORMAL in
  // better-sqlite3, when another connection switches the file to WAL. EXTRA is nobody's default.
  if (synchronous === 'full' && Number(pragma(db, 'main.synchronous')) <= FULL) {
    db.exec('PRAGMA main.synchronous = FULL')
  }
  known.set(db, synchronous)
}

/** @throws BackendUnavailableError inside a transaction of somebody else, which must not be ended here. */
export function refuseTransaction(db: SqliteDatabase): void {
  if (!isInTransaction(db)) return
  const what =
    'the connection is inside a transaction that the guard did not begin: give the guard a ' +
    'connection of its own, or the transaction to guard.claim(lease, db)'
  throw new BackendUnavailableError('down', what)
}

export function pragma(db: SqliteDatabase, name: string): unknown {
  const row = prepared(db, `PRAGMA ${name}`).get() as SqliteRow | undefined
  return Object.values(row ?? {})[0]
}
