/** A transaction in which only the guard itself works: it begins and ends in one turn. */
import { rollBack, type SqliteDatabase } from '../../clients/sqlite.ts'
import { asSqliteError, isBusy, sqliteCode } from '../../clients/sqlite-errors.ts'
import type { Bound } from '../shared/bound.ts'
import { alone, bounded, type Parts } from './parts.ts'
import { prepareConnection } from './settings.ts'

type Result<T> = { readonly value: T } | { readonly error: unknown }

/**
 * @param work Synchronous. It runs again, after a ROLLBACK, when others are in the way.
 * @throws what `work` throws, as it is; LeaseLostError, GuardBusyError, BackendUnavailableError.
 */
export async function briefly<Db extends SqliteDatabase, T>(
  parts: Parts<Db>,
  resource: string,
  bound: Bound,
  work: () => T,
): Promise<T> {
  const result = await alone(parts, resource, bound, () =>
    bounded(parts, resource, bound, () => attempt(parts, bound, work)),
  )
  if ('error' in result) throw result.error
  return result.value
}

function attempt<Db extends SqliteDatabase, T>(
  { db, settings }: Parts<Db>,
  bound: Bound,
  work: () => T,
): Result<T> {
  prepareConnection(db, settings)
  db.exec('BEGIN IMMEDIATE')
  let value: T
  try {
    value = work()
    bound.assertValid()
  } catch (error) {
    rollBack(db)
    if (isBusy(error)) throw error
    return { error }
  }
  try {
    db.exec('COMMIT')
    return { value }
  } catch (error) {
    rollBack(db)
    if (isBusy(error)) throw error
    return { error: commitFailed(error) }
  }
}

/** A deferred constraint of the user's schema is for the user. */
export function commitFailed(error: unknown): unknown {
  const code = sqliteCode(error)
  const isTheirs = code === 'CONSTRAINT' || code === null
  return isTheirs ? error : asSqliteError(error, 'a guarded call', 'commit')
}
