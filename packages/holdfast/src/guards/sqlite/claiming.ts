/**
 * The claim itself: raise the fence to the presented token and draw `seq`, in one statement under the
 * file's write lock, or say why not. The reasoning is that of ../postgres/statements.ts.
 *
 * All of it is synchronous. In a transaction of the guard's own the write lock was taken before, so
 * that nothing that is read here can change until the end; in one of the user's, SQLite refuses a
 * write on a snapshot that is not the newest.
 *
 * Tokens are compared by SQLite, as 64-bit integers, and come back as text.
 */
import type { SqliteDatabase } from '../../clients/sqlite.ts'
import { asSqliteError, isBusy } from '../../clients/sqlite-errors.ts'
import { InvariantError } from '../../core/assert.ts'
import type { Fenced } from '../../core/backend.ts'
import { InvalidArgumentError, LockError } from '../../core/errors.ts'
import {
  type Claim,
  type Claimed,
  type FenceRow,
  readRow,
  repeatOrRefusal,
} from '../shared/record.ts'
import { firstRow, statementOf } from './connection.ts'
import { refuseByLockRow } from './lock-row.ts'
import type { GuardSettings } from './options.ts'
import { fencesTable } from './schema.ts'

/** What one call presents. */
export type Presented = Readonly<{ claim: Claim; fenced: Fenced }>

export class Statements {
  /**
   * Claims and draws `seq` in one, first touch included. Values: resource, token, owner, op, source.
   * One row (seq) when claimed, none when refused.
   */
  readonly claim: string
  /** Value: resource. One row or none. */
  readonly read: string
  /**
   * Values: token, owner, op, source, resource. Overwrites whatever stands there: another source's
   * tokens end here.
   */
  readonly replace: string

  constructor({ tablePrefix }: Pick<GuardSettings, 'tablePrefix'>) {
    // Qualified: a temporary table of that name would stand before it.
    const table = `main.${fencesTable(tablePrefix)}`
    this.claim = `
      INSERT INTO ${table} AS f (resource, token, owner, seq, op, source)
      VALUES (?, CAST(? AS INTEGER), ?, 1, ?, ?)
      ON CONFLICT (resource) DO UPDATE
      SET token = excluded.token, owner = excluded.owner, op = excluded.op,
        seq = CASE WHEN f.token = excluded.token THEN f.seq + 1 ELSE 1 END
      WHERE f.source = excluded.source
        AND (f.token < excluded.token
          OR (f.token = excluded.token AND f.owner = excluded.owner AND f.op <> excluded.op))
      RETURNING CAST(seq AS TEXT) AS seq`
    this.read = `
      SELECT CAST(token AS TEXT) AS token, owner, CAST(seq AS TEXT) AS seq, op, source
      FROM ${table} WHERE resource = ?`
    this.replace = `
      UPDATE ${table} SET token = CAST(? AS INTEGER), owner = ?, seq = 1, op = ?, source = ?
      WHERE resource = ?`
  }
}

/** What a claim needs beside the connection. */
export type ClaimParts = Readonly<{ statements: Statements; settings: GuardSettings }>

/**
 * Inside a transaction.
 *
 * @throws StaleTokenError, TokenConflictError, TokenSourceError: nothing was applied.
 */
export function claimOn(
  db: SqliteDatabase,
  { statements, settings }: ClaimParts,
  { claim, fenced }: Presented,
): Claimed {
  refuseByLockRow(db, settings.tablePrefix, claim, fenced)
  const { resource, token, owner, op, source } = claim
  const drawn = firstRow(db, statements.claim, resource, token, owner, op, source)
  if (drawn !== undefined) return { seq: BigInt(String(drawn['seq'])), repeat: false }
  const row = readRecord(db, statements, resource)
  const seq = row && repeatOrRefusal(row, claim, fenced)
  if (seq === null) throw new InvariantError(`a claim of "${resource}" met a row that it may raise`)
  return { seq, repeat: true }
}

/** An operator's decision: from here on, tokens of the lease's source count for its resource. */
export function adoptOn(db: SqliteDatabase, parts: ClaimParts, presented: Presented): Claimed {
  const { resource, token, owner, op, source } = presented.claim
  const row = readRecord(db, parts.statements, resource)
  if (row === null || row.source === source) return claimOn(db, parts, presented)
  statementOf(db, parts.statements.replace).run(token, owner, op, source, resource)
  return { seq: 1n, repeat: false }
}

export function readRecord(
  db: SqliteDatabase,
  statements: Statements,
  resource: string,
): FenceRow | null {
  return readRow(firstRow(db, statements.read, resource))
}

/** The claim's own statement failed, for a reason of the database. */
export function claimFailed(tablePrefix: string, error: unknown): unknown {
  if (error instanceof LockError || isBusy(error)) return error
  if (error instanceof Error && /no such table: main\.\w+fences/.test(error.message)) {
    const allowed = "one with the guard's table: run guard.migrate() once"
    return new InvalidArgumentError('tablePrefix', tablePrefix, allowed)
  }
  return asSqliteError(error, 'a claim')
}
