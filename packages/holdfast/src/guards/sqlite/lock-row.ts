/**
 * Locks in the same file: the grant itself counts as a claim.
 *
 * Where a `sqliteBackend` keeps its locks in the guard's file, the row of the lock already tells whether
 * somebody newer holds it, and it is read in the same transaction. So a superseded holder is refused
 * from the next grant on, and not only from the next holder's claim. A row of another store says
 * nothing here: its tokens do not compare.
 */
import type { SqliteDatabase } from '../../clients/sqlite.ts'
import type { Fenced } from '../../core/backend.ts'
import { StaleTokenError } from '../../core/errors.ts'
import { reportStale } from '../../core/guard.ts'
import type { Claim } from '../shared/record.ts'
import { firstRow } from './connection.ts'

/** Begins the source of every token that a SQLite file gave; behind it stands the id of the file. */
const SOURCE = 'sqlite:'
/** Of the lock tables. Others are not looked at. */
const VERSION = 1

/** @throws StaleTokenError when a lock row in this file has a larger token. */
export function refuseByLockRow(
  db: SqliteDatabase,
  tablePrefix: string,
  { resource, source, token }: Claim,
  fenced: Fenced,
): void {
  if (!source.startsWith(SOURCE) || !hasLockTables(db, tablePrefix)) return
  const newer = firstRow(
    db,
    `SELECT CAST(l.fencing_token AS TEXT) AS token
     FROM main.${tablePrefix}meta AS m JOIN main.${tablePrefix}locks AS l
     WHERE m.store = ? AND m.schema_version = ${VERSION}
       AND l.lock_name = ? AND l.fencing_token > CAST(? AS INTEGER)`,
    source.slice(SOURCE.length),
    fenced.lockName,
    token,
  )
  if (newer === undefined) return
  const highest = BigInt(String(newer['token']))
  reportStale(fenced, resource, highest)
  throw new StaleTokenError(resource, fenced.fencingToken, highest)
}

/** The columns that are asked for; a table of somebody else's is none of ours. */
function hasLockTables(db: SqliteDatabase, tablePrefix: string): boolean {
  const row = firstRow(
    db,
    `SELECT count(*) AS found FROM
       (SELECT name FROM pragma_table_info(?, 'main') WHERE name IN ('store', 'schema_version')
        UNION ALL
        SELECT name FROM pragma_table_info(?, 'main') WHERE name IN ('lock_name', 'fencing_token'))`,
    `${tablePrefix}meta`,
    `${tablePrefix}locks`,
  )
  return Number(row?.['found']) === 4
}
