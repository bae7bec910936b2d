/// <reference lib="esnext.disposable" preserve="true" />
/**
 * A guard for data in PostgreSQL: it refuses what a superseded holder sends. The entry
 * `holdfast/guards/postgres`; how it works is in ./postgres/.
 */
import type { PgClient, PgPool } from '../clients/postgres.ts'
import { type PostgresGuard, postgresGuardWith } from './postgres/guard.ts'
import type { PostgresGuardOptions } from './postgres/options.ts'

export type { PgClient, PgPool, PgPooled } from '../clients/postgres.ts'
export type { PostgresGuard } from './postgres/guard.ts'
export type { PostgresGuardOptions, PostgresIsolation } from './postgres/options.ts'

/**
 * A guard whose records lie beside the data, so that claim and writes are one transaction.
 *
 * Guarantees, for what is written inside `transaction`, or after `claim(lease, tx)` in the same
 * transaction: nothing of a smaller token is committed after a larger one claimed; a lost lease is
 * not committed; a rejection other than OutcomeUnknownError means that nothing was applied. Does not
 * guarantee anything for writes that do not claim, nor for effects outside the database.
 *
 * The function given to `transaction` may run several times. It must not end the transaction itself
 * (told as OutcomeUnknownError where the driver reports its status, pg 8.21, unless it began another
 * one), nor release the client, nor leave work on it behind when it returns, nor call this guard
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
): PostgresGuard<C> {
  return postgresGuardWith(pool, options)
}
