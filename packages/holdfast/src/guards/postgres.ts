/// <reference lib="esnext.disposable" preserve="true" />
/**
 * A guard for data in PostgreSQL: it refuses what a superseded holder sends. The entry
 * `holdfast/guards/postgres`; how it works is in ./postgres/.
 */
import type { PgClient, PgPool } from '../clients/pg-pool.ts'
import type { PostgresJs } from '../clients/postgres-js.ts'
import { type PostgresGuard, postgresGuardWith } from './postgres/guard.ts'
import type { PostgresGuardOptions } from './postgres/options.ts'

export type { PgClient, PgPool, PgPooled } from '../clients/pg-pool.ts'
export type { PostgresJs } from '../clients/postgres-js.ts'
export type { PostgresCheck } from './postgres/check.ts'
export type { PostgresRow, PostgresWrite } from './postgres/column-write.ts'
export type { PostgresColumns } from './postgres/columns.ts'
export type { PostgresGuard } from './postgres/guard.ts'
export type { PostgresGuardOptions, PostgresIsolation } from './postgres/options.ts'
export type { PostgresUpdateResult } from './postgres/update.ts'

/**
 * A guard whose records lie beside the data, so that claim and writes are one transaction.
 *
 * Guarantees, for what is written inside `transaction`, or after `claim(lease, tx)` in the same
 * transaction: nothing of a smaller token is committed after a larger one claimed; a lost lease is
 * not committed; a rejection other than OutcomeUnknownError means that nothing was applied. Does not
 * guarantee anything for writes that do not claim, nor for effects outside the database.
 *
 * The function given to `transaction` may run several times. It must not end the transaction itself
 * (told as OutcomeUnknownError, unless it began another one), nor release the client, nor leave work on it behind when it returns, nor call this guard
 * with the same lease for the same record (ReentrantAcquireError).
 *
 * A holder that stops inside blocks the next one for at most the validity that it had at BEGIN: no
 * single statement, wait for a lock or idle gap may last longer, even if the lease is renewed
 * meanwhile (GuardBusyError then); and the connection is destroyed when the lease is lost.
 *
 * @param pool Yours, and it stays yours: the guard borrows one connection for each call. It should
 *   have an `error` listener, as every pool of `pg` should.
 * @throws InvalidArgumentError naming the option that is wrong.
 */
export function postgresGuard<C extends PgClient>(
  pool: PgPool<C>,
  options?: PostgresGuardOptions,
): PostgresGuard<C>
/**
 * The same for the driver `postgres` (postgres.js) 3.4.
 *
 * The function given to `transaction` gets what `sql.begin` would give it; without `prepare` and
 * `file`, which a guard could not answer for, and with a `notify` that goes out with COMMIT. A statement after the lease is lost is refused, whenever it was written down. The driver
 * can close a connection, but not cut one that hangs: its place in the pool is taken until TCP gives
 * it up.
 *
 * @param sql Yours, and it stays yours: the guard takes one connection for each call.
 * @throws InvalidArgumentError naming the option that is wrong.
 */
export function postgresGuard<Tx>(
  sql: PostgresJs<Tx>,
  options?: PostgresGuardOptions,
): PostgresGuard<Tx>
export function postgresGuard(pool: unknown, options?: PostgresGuardOptions): PostgresGuard<never> {
  return postgresGuardWith(pool as PostgresJs<never>, options)
}
