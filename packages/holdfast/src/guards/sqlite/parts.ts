/** What the guard is made of, and how a call gets its turn on the one connection. */
import { inTurn, type SqliteDatabase, sqliteFileOf } from '../../clients/sqlite.ts'
import { isBusy } from '../../clients/sqlite-errors.ts'
import { BackendUnavailableError, GuardBusyError } from '../../core/errors.ts'
import type { Seams } from '../../core/seams.ts'
import type { Bound } from '../shared/bound.ts'
import { Turns } from '../shared/turns.ts'
import { Statements } from './claiming.ts'
import type { GuardSettings } from './options.ts'

export interface Parts<Db extends SqliteDatabase> {
  readonly db: Db
  readonly settings: GuardSettings
  readonly statements: Statements
  readonly seams: Seams
  /** Of the connection, shared by all guards on it. */
  readonly line: Line
}

type Line = Readonly<{
  turns: Turns
  key: string
  /** The file, which one connection writes at a time; null: in memory, of this connection alone. */
  file: string | null
}>

/** A connection has one transaction at a time, whichever guard began it. */
const lines = new WeakMap<SqliteDatabase, Line>()

export function partsOf<Db extends SqliteDatabase>(
  db: Db,
  settings: GuardSettings,
  seams: Seams,
): Parts<Db> {
  const line = lines.get(db) ?? {
    turns: new Turns(seams, 'on the same connection or file'),
    key: `sqlite:${seams.nonce()}`,
    file: sqliteFileOf(db) || null,
  }
  lines.set(db, line)
  return { db, settings, seams, line, statements: new Statements(settings) }
}

/**
 * Runs `work` when no other guarded call runs on the connection.
 *
 * @param use `reads`: it waits for nobody who writes by another connection.
 * @throws ReentrantAcquireError where it would wait for the call that it is a part of.
 */
export function alone<Db extends SqliteDatabase, T>(
  { line }: Parts<Db>,
  resource: string,
  bound: Bound,
  work: () => Promise<T>,
  use: 'reads' | 'writes' = 'writes',
): Promise<T> {
  const place = use === 'writes' ? line.file : null
  return line.turns.run(line.key, resource, bound, work, place)
}

/**
 * Runs `attempt`, and again while another connection is in the way, as long as the call may last.
 *
 * @throws LeaseLostError or GuardBusyError when that is over; BackendUnavailableError.
 */
export async function bounded<Db extends SqliteDatabase, T>(
  { db, seams }: Parts<Db>,
  resource: string,
  bound: Bound,
  attempt: () => T,
): Promise<T> {
  // A lease that is renewed meanwhile waits on.
  for (;;) {
    bound.assertValid()
    const untilMs = seams.nowMs() + bound.remainingMs()
    try {
      return await inTurn(db, seams, { untilMs, what: 'a guarded call' }, attempt)
    } catch (error) {
      if (!isOutOfTime(error)) throw error
      bound.assertValid()
      if (bound.remainingMs() > 0) continue
      const what = 'another connection kept the file locked'
      throw new GuardBusyError(resource, what, { cause: error })
    }
  }
}

function isOutOfTime(error: unknown): boolean {
  if (!(error instanceof BackendUnavailableError)) return false
  return error.why === 'backlog' || isBusy(error.cause)
}
