/// <reference lib="esnext.disposable" preserve="true" />
/**
 * A guard for data in SQLite: it refuses what a superseded holder sends. The entry
 * `holdfast/guards/sqlite`; how it works is in ./sqlite/.
 */
import type { SqliteDatabase } from '../clients/sqlite.ts'
import { type SqliteGuard, sqliteGuardWith } from './sqlite/guard.ts'
import type { SqliteGuardOptions } from './sqlite/options.ts'

export type { SqliteDatabase, SqliteStatement } from '../clients/sqlite.ts'
export type { SqliteCheck } from './sqlite/check.ts'
export type { SqliteColumnValues, SqliteGuard, SqliteWrite } from './sqlite/guard.ts'
export type { SqliteColumns, SqliteGuardOptions } from './sqlite/options.ts'
export type { SqliteUpdateResult } from './sqlite/update.ts'

/**
 * A guard whose record lies in the same SQLite file as the data, so that claim and writes are one
 * transaction. For better-sqlite3 12, and node:sqlite from Node 22.13.
 *
 * Guarantees, for what is written inside `transaction`, or after `claim(lease, db)` in the same
 * transaction: nothing of a smaller token is committed after a larger one claimed; a lost lease is not
 * committed; a rejection other than OutcomeUnknownError means that nothing was applied. Where a
 * `sqliteBackend` keeps the locks in the same file, the next grant itself counts as its claim. Does not
 * guarantee anything for writes that do not claim, nor for effects outside the file: attached databases
 * are other files, and with a write-ahead log each of them commits by itself.
 *
 * One process writes to a SQLite file at a time, and no server ends its transaction: a holder that stands
 * still inside keeps every other writer waiting until it goes on. The next one waits for its own
 * validity, or `timeoutMs`, and is told GuardBusyError or LeaseLostError. A process that runs rolls back
 * at the end of the lease, whatever the function does.
 *
 * The event loop is never held for longer than a few milliseconds of waiting for other writers.
 *
 * @param db Yours, open, and best used for nothing else: what other code runs on it while an asynchronous
 *   function of `transaction` waits gets into its transaction. All guards on one connection take turns.
 * @throws InvalidArgumentError naming the option that is wrong.
 */
export function sqliteGuard<Db extends SqliteDatabase>(
  db: Db,
  options?: SqliteGuardOptions,
): SqliteGuard<Db> {
  return sqliteGuardWith(db, options)
}
