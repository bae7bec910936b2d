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
 * @param pool Yours, and it stays yours: the guard borrows one connection for each call. It should
 *   have an `error` listener, as every pool of `pg` should.
 *
 * @throws InvalidArgumentError naming the option that is wrong.
 */
export function postgresGuard<C extends PgClient>(
  pool: PgPool<C>,
  options?: PostgresGuardOptions,
): PostgresGuard<C> {
  return postgresGuardWith(pool, options)
}
