/** The guard for SQLite, put together. */
import { type SqliteDatabase, sqliteFileOf } from '../../clients/sqlite.ts'
import { isBusy } from '../../clients/sqlite-errors.ts'
import type { Fenced } from '../../core/backend.ts'
import { GuardBusyError, InvalidArgumentError } from '../../core/errors.ts'
import type { TransactionalGuard } from '../../core/guard.ts'
import { type Seams, systemSeams } from '../../core/seams.ts'
import { Bound } from '../shared/bound.ts'
import { type Call, callOf } from '../shared/call.ts'
import { readWrite } from '../shared/column-write.ts'
import { repeated } from '../shared/record.ts'
import { storableText } from '../shared/text.ts'
import { briefly } from './brief.ts'
import { check, type SqliteCheck } from './check.ts'
import { adoptOn, claimFailed, claimOn, readRecord } from './claiming.ts'
import { columnsDdl, columnsOf, readTable } from './columns.ts'
import { isInTransaction } from './connection.ts'
import { insideOf } from './handle.ts'
import { migrate } from './migrate.ts'
import { readGuardOptions, type SqliteGuardOptions } from './options.ts'
import { alone, bounded, type Parts, partsOf } from './parts.ts'
import { ddlOf } from './schema.ts'
import { runGuarded } from './transaction.ts'
import { type SqliteUpdateResult, updateOn } from './update.ts'

/** Columns with their values: texts, numbers, bigints, bytes or null. */
export type SqliteColumnValues = Readonly<Record<string, unknown>>

/** One write of one row. */
export interface SqliteWrite {
  /**
   * `table` or `schema.table`, where a schema is `main` or the name of an attached database; a part
   * that contains a dot or a quote stands in double quotes, as in SQL.
   */
  readonly table: string
  /**
   * What finds the row: columns of a primary key or another unique one, with texts, numbers, bigints,
   * bytes or null. None of them may be in `set`.
   */
  readonly where: SqliteColumnValues
  /** What is written. Not the guard's own columns; `undefined` is refused, null is a value. */
  readonly set: SqliteColumnValues
  /**
   * Names this call, 1 to 1,024 bytes: a repeat with the same name is not applied again. Default: a
   * random name, so that each call is another.
   */
  readonly op?: string | undefined
}

/** The guard that `sqliteGuard` makes; `Db` is your driver's own type. */
export interface SqliteGuard<Db extends SqliteDatabase> extends TransactionalGuard<Db> {
  /** What `migrate` creates, as text. */
  readonly ddl: string
  /**
   * Creates the guard's table if it is missing. Safe to call again, and by several processes at once;
   * where the table is there, a connection that may only read can call it too.
   *
   * @throws BackendUnavailableError (`read-only`: with the text to run), GuardBusyError;
   *   InvalidArgumentError when the file has a table of that name and another shape, or of a later
   *   schema version than this one.
   */
  migrate(): Promise<void>
  /**
   * Looks whether all is there that the guard needs. It changes nothing, and takes the file's write
   * lock for a moment.
   *
   * @param tables Those that `update` writes, as there: their five columns are looked at too.
   * @throws InvalidArgumentError, BackendUnavailableError, GuardBusyError.
   */
  check(tables?: readonly string[]): Promise<SqliteCheck>
  /**
   * The columns that `update` needs and the table has not, as text that adds them; empty: it has all.
   * SQLite cannot say "if it does not exist" of a column, so the table is looked at.
   *
   * @param table As in `update`.
   * @throws InvalidArgumentError.
   */
  ddlFor(table: string): string
  /**
   * Begins, claims, calls `fn`, commits. `fn` gets the connection, for as long as the transaction lasts:
   * a statement that comes later is refused. If it returns no promise, all of it is one turn of the
   * event loop. It is never run twice.
   *
   * @throws StaleTokenError, TokenConflictError, TokenSourceError, GuardBusyError, LeaseLostError,
   *   BackendUnavailableError: nothing was applied. OutcomeUnknownError: `fn` ended the transaction
   *   itself, or the disk failed at COMMIT. What `fn` throws, as it is: nothing was applied.
   */
  transaction<T>(lease: Fenced, fn: (tx: Db) => T | Promise<T>): Promise<T>
  /**
   * The column form: writes one row whose own columns carry the fence, in one statement, without a
   * claim.
   *
   * Guarantees: after a write with a token, none with a smaller one is applied to that row; a call is
   * applied once. Does not guarantee anything for what was read before: a new value that depends on a
   * read needs `transaction`, whose claim comes before it.
   *
   * Repeating a call is harmless if both have the same `op` and no other write of the lease to that row
   * came between. With `tx` it stands or falls with your transaction.
   *
   * @throws StaleTokenError, TokenConflictError, TokenSourceError, GuardBusyError, LeaseLostError,
   *   BackendUnavailableError: nothing was applied. InvalidArgumentError, also when `where` finds more
   *   than one row: nothing was applied. OutcomeUnknownError: the disk failed at COMMIT. What your data
   *   refuses (a constraint, a trigger) reaches you as it is.
   */
  update(lease: Fenced, write: SqliteWrite, tx?: Db): Promise<SqliteUpdateResult>
}

/** For tests and simulations, with clocks and random ids of their own. */
export function sqliteGuardWith<Db extends SqliteDatabase>(
  db: Db,
  options: SqliteGuardOptions | undefined,
  seams: Seams = systemSeams,
): SqliteGuard<Db> {
  const settings = readGuardOptions(options)
  sqliteFileOf(db)
  return new ConnectionGuard(partsOf(db, settings, seams))
}

class ConnectionGuard<Db extends SqliteDatabase> implements SqliteGuard<Db> {
  readonly ddl: string
  readonly #parts: Parts<Db>

  constructor(parts: Parts<Db>) {
    this.#parts = parts
    this.ddl = ddlOf(parts.settings.tablePrefix)
  }

  migrate(): Promise<void> {
    return migrate(this.#parts)
  }

  async check(tables: readonly string[] = []): Promise<SqliteCheck> {
    if (!Array.isArray(tables)) {
      throw new InvalidArgumentError('tables', tables, 'a list of names of tables')
    }
    return check(this.#parts, tables)
  }

  ddlFor(table: string): string {
    const name = readTable(table)
    return columnsDdl(name, this.#parts.settings.columns, columnsOf(this.#parts.db, name))
  }

  async claim(lease: Fenced, tx?: Db): Promise<{ readonly seq: bigint }> {
    const call = callOf(this.#parts, lease)
    call.bound.assertValid()
    const claim = (db: Db): { seq: bigint } => {
      try {
        return { seq: claimOn(db, this.#parts, call).seq }
      } catch (error) {
        throw claimFailed(this.#parts.settings.tablePrefix, error)
      }
    }
    return tx === undefined ? this.#briefly(call, claim) : inside(tx, call, claim)
  }

  async transaction<T>(lease: Fenced, fn: (tx: Db) => T | Promise<T>): Promise<T> {
    if (typeof fn !== 'function') throw new InvalidArgumentError('fn', fn, 'a function')
    const call = callOf(this.#parts, lease)
    call.bound.assertValid()
    return runGuarded(this.#parts, call, (tx: Db, { repeat }) => {
      if (repeat) throw repeated()
      return fn(tx)
    })
  }

  async adopt(lease: Fenced): Promise<void> {
    const call = callOf(this.#parts, lease)
    call.bound.assertValid()
    return this.#briefly(call, (db) => {
      try {
        adoptOn(db, this.#parts, call)
      } catch (error) {
        throw claimFailed(this.#parts.settings.tablePrefix, error)
      }
    })
  }

  async highest(resource: string): Promise<Omit<Fenced, 'lockName'> | null> {
    storableText('resource', resource)
    const { settings, seams, statements, db } = this.#parts
    const bound = new Bound(null, settings.timeoutMs, seams)
    const read = (): Omit<Fenced, 'lockName'> | null => {
      try {
        const row = readRecord(db, statements, resource)
        return row && { fencingToken: row.token, owner: row.owner, source: row.source }
      } catch (error) {
        throw claimFailed(settings.tablePrefix, error)
      }
    }
    const attempts = () => bounded(this.#parts, resource, bound, read)
    return alone(this.#parts, resource, bound, attempts, 'reads')
  }

  async update(lease: Fenced, write: SqliteWrite, tx?: Db): Promise<SqliteUpdateResult> {
    const { settings } = this.#parts
    const call = callOf(this.#parts, lease)
    const read = readWrite(write, settings.columns)
    const named = read.op === null ? call : { ...call, claim: { ...call.claim, op: read.op } }
    call.bound.assertValid()
    const run = (db: Db): SqliteUpdateResult => updateOn(db, settings, named, read)
    return tx === undefined ? this.#briefly(named, run) : inside(tx, named, run)
  }

  #briefly<T>({ claim, bound }: Call, work: (db: Db) => T): Promise<T> {
    return briefly(this.#parts, claim.resource, bound, () => work(this.#parts.db))
  }
}

/** The transaction is the caller's, or that of `transaction`: nothing is retried or ended in it. */
function inside<Db extends SqliteDatabase, T>(tx: Db, { claim }: Call, work: (db: Db) => T): T {
  const handle = insideOf(tx)
  handle?.gate.enter()
  const db = (handle?.db ?? tx) as Db
  if (handle === null) {
    sqliteFileOf(db, 'tx')
    if (!isInTransaction(db)) {
      const allowed = 'a connection on which you have begun a transaction'
      throw new InvalidArgumentError('tx', 'one without a transaction', allowed)
    }
  }
  try {
    return work(db)
  } catch (error) {
    if (!isBusy(error)) throw error
    const what =
      'another connection writes to the file, or has written since your transaction began'
    throw new GuardBusyError(claim.resource, what, { cause: error })
  }
}
