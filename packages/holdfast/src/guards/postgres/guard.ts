/** The guard for PostgreSQL, put together. */
import { checkPipelinedPool, notPipelined } from '../../clients/pg-ahead.ts'
import { isPgPool, type PgClient, type PgPool, pgDriver } from '../../clients/pg-pool.ts'
import { isPostgresJs, type PostgresJs, postgresJsDriver } from '../../clients/postgres-js.ts'
import type { Driver } from '../../clients/postgres-wire.ts'
import type { Fenced } from '../../core/backend.ts'
import { InvalidArgumentError } from '../../core/errors.ts'
import type { TransactionalGuard } from '../../core/guard.ts'
import { type Seams, systemSeams } from '../../core/seams.ts'
import { readWrite } from '../shared/column-write.ts'
import { type Claimed, readRow } from '../shared/record.ts'
import { storableText } from '../shared/text.ts'
import { boundAndAdopt } from './adopting.ts'
import { type Call, callOf, inTurn, type Parts, partsOf } from './call.ts'
import { check, type PostgresCheck } from './check.ts'
import { boundAndClaim, claimByParts } from './claiming.ts'
import type { PostgresWrite } from './column-write.ts'
import { columnsDdl, readTable } from './columns.ts'
import { inOneFlight } from './flight.ts'
import { migrate } from './migrate.ts'
import { type GuardSettings, type PostgresGuardOptions, readGuardOptions } from './options.ts'
import { ddlOf } from './schema.ts'
import { borrow } from './session.ts'
import { inOrder, workOf } from './steps.ts'
import { claimFailed, claimFailedInside, runGuarded } from './transaction.ts'
import { ColumnUpdates, type PostgresUpdateResult } from './update.ts'

/** The guard that `postgresGuard` makes; `Tx` is your pool's own client type. */
export interface PostgresGuard<Tx> extends TransactionalGuard<Tx> {
  /** What `migrate` creates, as text, for a role that may. */
  readonly ddl: string
  /**
   * Creates the guard's table if it is missing, and records the version of its shape in its comment.
   * Safe to call again, and by several processes at once; a role without the right to create can call
   * it once the table is there.
   *
   * @throws BackendUnavailableError (`no-permission`: what is missing, and the text to run),
   *   GuardBusyError; InvalidArgumentError when the schema has a table `fences` of another shape, or
   *   of a later schema version than this one.
   */
  migrate(): Promise<void>
  /**
   * Looks whether all is there that the guard needs, and whether the role of this pool may use it. It
   * changes nothing, and needs no right but to connect.
   *
   * @param tables Those that `update` writes, as there: their five columns and the rights on them are
   *   looked at too. Rights on your own columns are not.
   * @throws InvalidArgumentError, BackendUnavailableError.
   */
  check(tables?: readonly string[]): Promise<PostgresCheck>
  /**
   * The columns that `update` needs, as text that adds them to a table of yours; it may run again.
   *
   * @param table As in `update`.
   * @throws InvalidArgumentError.
   */
  ddlFor(table: string): string
  /**
   * The column form: writes one row whose own columns carry the fence, in one statement, without a
   * claim.
   *
   * Guarantees: after a write with a token, none with a smaller one is applied to that row; a call is
   * applied once, whatever the network does. Does not guarantee anything for what was read before: a
   * new value that depends on a read needs `transaction`, whose claim comes before it.
   *
   * Without `tx` it is a transaction of its own. Its wait for the row's lock lasts no longer than the
   * lease's validity, or `timeoutMs`; when the answer is lost, it finds out what became of it. With
   * `tx` it stands or falls with your transaction, whose end and time-outs are yours.
   *
   * Calls of one lease for the same row run one after the other. Repeating a call is harmless if both
   * have the same `op` and no other write of the lease to that row came between.
   *
   * @throws StaleTokenError, TokenConflictError, TokenSourceError, GuardBusyError, LeaseLostError,
   *   BackendUnavailableError: nothing was applied. InvalidArgumentError, also when `where` finds more
   *   than one row: nothing was applied. OutcomeUnknownError: the answer was lost, and the row does
   *   not tell. What your data refuses (a constraint, a trigger) reaches you as it is.
   */
  update(lease: Fenced, write: PostgresWrite, tx?: Tx): Promise<PostgresUpdateResult>
}

/** For tests and simulations, with clocks and random ids of their own. */
export function postgresGuardWith<C extends PgClient>(
  pool: PgPool<C>,
  options: PostgresGuardOptions | undefined,
  seams?: Seams,
): PostgresGuard<C>
export function postgresGuardWith<Tx>(
  sql: PostgresJs<Tx>,
  options: PostgresGuardOptions | undefined,
  seams?: Seams,
): PostgresGuard<Tx>
export function postgresGuardWith(
  pool: unknown,
  options: PostgresGuardOptions | undefined,
  seams: Seams = systemSeams,
): PostgresGuard<never> {
  const settings = readGuardOptions(options)
  return new PoolGuard(partsOf(driverOf(pool, settings), settings, seams))
}

function driverOf(pool: unknown, { isPipelined }: GuardSettings): Driver<never> {
  if (isPgPool(pool)) {
    if (isPipelined) checkPipelinedPool(pool)
    return pgDriver(pool) as Driver<never>
  }
  if (isPostgresJs(pool)) {
    if (isPipelined) throw notPipelined()
    return postgresJsDriver(pool) as Driver<never>
  }
  const allowed = 'a Pool of pg, or anything with its connect(); or the sql of postgres 3.4'
  throw new InvalidArgumentError('pool', pool, allowed)
}

class PoolGuard<Tx> implements PostgresGuard<Tx> {
  readonly ddl: string
  readonly #parts: Parts<Tx>
  readonly #updates: ColumnUpdates<Tx>

  constructor(parts: Parts<Tx>) {
    this.#parts = parts
    this.#updates = new ColumnUpdates(parts)
    this.ddl = ddlOf(parts.settings.schema)
  }

  migrate(): Promise<void> {
    return migrate(this.#parts)
  }

  async check(tables: readonly string[] = []): Promise<PostgresCheck> {
    if (!Array.isArray(tables)) {
      throw new InvalidArgumentError('tables', tables, 'a list of names of tables')
    }
    return check(this.#parts, tables)
  }

  async claim(lease: Fenced, tx?: Tx): Promise<{ readonly seq: bigint }> {
    const call = callOf(this.#parts, lease)
    call.bound.assertValid()
    if (tx !== undefined) return this.#claimIn(tx, call)
    const work = async (_tx: Tx, { seq }: Claimed): Promise<{ seq: bigint }> => ({ seq })
    const steps = inOrder(boundAndClaim, work)
    return inTurn(this.#parts, call, () => runGuarded(this.#parts, call, steps))
  }

  async transaction<T>(lease: Fenced, fn: (tx: Tx) => Promise<T>): Promise<T> {
    if (typeof fn !== 'function') throw new InvalidArgumentError('fn', fn, 'a function')
    const call = callOf(this.#parts, lease)
    const { isPipelined } = this.#parts.settings
    const steps = isPipelined ? inOneFlight(fn) : inOrder(boundAndClaim, workOf(fn))
    return await inTurn(this.#parts, call, () => runGuarded(this.#parts, call, steps))
  }

  async adopt(lease: Fenced): Promise<void> {
    const call = callOf(this.#parts, lease)
    call.bound.assertValid()
    const work = async (): Promise<void> => undefined
    const steps = inOrder(boundAndAdopt, work)
    return inTurn(this.#parts, call, () => runGuarded(this.#parts, call, steps))
  }

  async highest(resource: string): Promise<Omit<Fenced, 'lockName'> | null> {
    storableText('resource', resource)
    const { driver, statements, settings, deadlines } = this.#parts
    const session = await borrow(driver, settings.timeoutMs, deadlines, null)
    try {
      const { rows } = await session.send(statements.read, [resource], settings.timeoutMs)
      session.giveBack()
      const row = readRow(rows[0])
      return row && { fencingToken: row.token, owner: row.owner, source: row.source }
    } catch (error) {
      await session.rollBack()
      throw claimFailed(settings.schema, error)
    }
  }

  ddlFor(table: string): string {
    return columnsDdl(readTable(table), this.#parts.settings.columns)
  }

  async update(lease: Fenced, write: PostgresWrite, tx?: Tx): Promise<PostgresUpdateResult> {
    const call = callOf(this.#parts, lease)
    const read = readWrite(write, this.#parts.settings.columns)
    const named = read.op === null ? call : { ...call, claim: { ...call.claim, op: read.op } }
    call.bound.assertValid()
    if (tx === undefined) return await this.#updates.alone(named, read)
    return await this.#updates.inTransaction(this.#parts.driver.writeInside(tx), named, read)
  }

  /** The transaction is the caller's: nothing is set, retried or rolled back in it here. */
  async #claimIn(tx: Tx, { claim, fenced }: Call): Promise<{ seq: bigint }> {
    const { driver, statements, settings } = this.#parts
    const ask = driver.inside(tx)
    try {
      const { seq } = await claimByParts(ask, statements, claim, fenced)
      return { seq }
    } catch (error) {
      throw claimFailedInside(settings.schema, claim.resource, error)
    }
  }
}
