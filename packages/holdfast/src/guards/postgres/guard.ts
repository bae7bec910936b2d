/** The guard for PostgreSQL, put together. */
import type { PgClient, PgPool } from '../../clients/postgres.ts'
import type { Fenced } from '../../core/backend.ts'
import { InvalidArgumentError, OutcomeUnknownError } from '../../core/errors.ts'
import type { TransactionalGuard } from '../../core/guard.ts'
import { type Seams, systemSeams } from '../../core/seams.ts'
import { beginAndAdopt } from './adopting.ts'
import { type Call, callOf, inTurn, type Parts, partsOf } from './call.ts'
import { type Ask, beginAndClaim, type Claimed, claimByParts, readRow } from './claiming.ts'
import { ddlOf, migrate } from './migrate.ts'
import { type PostgresGuardOptions, readGuardOptions, storableText } from './options.ts'
import { borrow, transactionStatus } from './session.ts'
import { claimFailed, claimFailedInside, runGuarded } from './transaction.ts'

/** The guard that `postgresGuard` makes; `Tx` is your pool's own client type. */
export interface PostgresGuard<Tx> extends TransactionalGuard<Tx> {
  /** What `migrate` creates, as text, for a role that may. */
  readonly ddl: string
  /**
   * Creates the guard's table if it is missing. Safe to call again, and by several processes at
   * once; a role without the right to create can call it once the table is there.
   *
   * @throws BackendUnavailableError (`no-permission`: with the text to run), GuardBusyError;
   *   InvalidArgumentError when the schema has a table `fences` of another shape.
   */
  migrate(): Promise<void>
}

/** For tests and simulations, with clocks and random ids of their own. */
export function postgresGuardWith<C extends PgClient>(
  pool: PgPool<C>,
  options: PostgresGuardOptions | undefined,
  seams: Seams = systemSeams,
): PostgresGuard<C> {
  if (typeof (pool as Partial<PgPool<C>> | null | undefined)?.connect !== 'function') {
    throw new InvalidArgumentError('pool', pool, 'a Pool of pg, or anything with its connect()')
  }
  return new PoolGuard(partsOf(pool, readGuardOptions(options), seams))
}

/** A pool has the shape of a client, but each of its statements is a transaction of its own. */
function checkTx<C extends PgClient>(tx: C, pool: PgPool<C>): C {
  const shape = tx as { query?: unknown; totalCount?: unknown } | null
  const isPool = (tx as unknown) === pool || typeof shape?.totalCount === 'number'
  if (isPool || typeof shape?.query !== 'function') {
    throw new InvalidArgumentError('tx', tx, 'the client inside whose transaction to claim')
  }
  return tx
}

class PoolGuard<C extends PgClient> implements PostgresGuard<C> {
  readonly ddl: string
  readonly #parts: Parts<C>

  constructor(parts: Parts<C>) {
    this.#parts = parts
    this.ddl = ddlOf(parts.settings.schema)
  }

  migrate(): Promise<void> {
    return migrate(this.#parts)
  }

  async claim(lease: Fenced, tx?: C): Promise<{ readonly seq: bigint }> {
    const call = callOf(this.#parts, lease)
    call.bound.assertValid()
    if (tx !== undefined) return this.#claimIn(checkTx(tx, this.#parts.pool), call)
    const work = async (_client: C, { seq }: Claimed): Promise<{ seq: bigint }> => ({ seq })
    return inTurn(this.#parts, call, () => runGuarded(this.#parts, call, beginAndClaim, work))
  }

  async transaction<T>(lease: Fenced, fn: (tx: C) => Promise<T>): Promise<T> {
    if (typeof fn !== 'function') throw new InvalidArgumentError('fn', fn, 'a function')
    const call = callOf(this.#parts, lease)
    call.bound.assertValid()
    const work = (client: C, { repeat }: Claimed): Promise<T> => {
      if (repeat) throw new OutcomeUnknownError('this very call was committed before')
      return fn(client)
    }
    return inTurn(this.#parts, call, () => runGuarded(this.#parts, call, beginAndClaim, work))
  }

  async adopt(lease: Fenced): Promise<void> {
    const call = callOf(this.#parts, lease)
    call.bound.assertValid()
    const work = async (): Promise<void> => undefined
    return inTurn(this.#parts, call, () => runGuarded(this.#parts, call, beginAndAdopt, work))
  }

  async highest(resource: string): Promise<Omit<Fenced, 'lockName'> | null> {
    storableText('resource', resource)
    const { pool, statements, settings, deadlines } = this.#parts
    const session = await borrow(pool, settings.timeoutMs, deadlines)
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

  /** The transaction is the caller's: nothing is set, retried or rolled back in it here. */
  async #claimIn(tx: C, { claim, fenced }: Call): Promise<{ seq: bigint }> {
    if (transactionStatus(tx) === 'I') {
      throw new InvalidArgumentError('tx', tx, 'a client inside a transaction: send BEGIN first')
    }
    const { statements, settings } = this.#parts
    const ask: Ask = (text, values) => tx.query(text, values)
    try {
      const { seq } = await claimByParts(ask, statements, claim, fenced)
      return { seq }
    } catch (error) {
      throw claimFailedInside(settings.schema, claim.resource, error)
    }
  }
}
