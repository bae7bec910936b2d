/**
 * What an error of a SQLite driver means for a call, all of whose work is one transaction.
 *
 * "Not applied" is claimed for everything before COMMIT, because the transaction is rolled back then,
 * and for a COMMIT that SQLite itself refuses. A COMMIT that met an I/O error is unknown: its frames
 * may stand in the log whole, and count once the log is read anew.
 *
 * better-sqlite3 gives `code: 'SQLITE_BUSY_SNAPSHOT'`, node:sqlite `errcode: 517`; both name the
 * same result codes (sqlite.org/rescode.html), of which the low byte is the primary one.
 */
import {
  BackendUnavailableError,
  LockError,
  OutcomeUnknownError,
  type UnavailableReason,
} from '../core/errors.ts'

/** Primary result codes by number. */
const NAMES: ReadonlyMap<number, string> = new Map([
  [1, 'ERROR'],
  [3, 'PERM'],
  [5, 'BUSY'],
  [6, 'LOCKED'],
  [7, 'NOMEM'],
  [8, 'READONLY'],
  [9, 'INTERRUPT'],
  [10, 'IOERR'],
  [11, 'CORRUPT'],
  [13, 'FULL'],
  [14, 'CANTOPEN'],
  [15, 'PROTOCOL'],
  [17, 'SCHEMA'],
  [19, 'CONSTRAINT'],
  [23, 'AUTH'],
  [26, 'NOTADB'],
])

type Meaning = readonly [why: UnavailableReason, words: string]

const MEANINGS: ReadonlyMap<string, Meaning> = new Map<string, Meaning>([
  ['BUSY', ['down', 'another connection keeps the database locked']],
  ['LOCKED', ['down', 'another statement of this connection keeps a table locked']],
  ['PROTOCOL', ['down', 'other processes are recovering the log']],
  ['READONLY', ['read-only', 'the file, its folder or the connection is read-only']],
  ['FULL', ['out-of-memory', 'the disk is full, or the database is at its max_page_count']],
  ['NOMEM', ['out-of-memory', 'memory is short']],
  ['IOERR', ['down', 'reading or writing the file failed']],
  ['CORRUPT', ['down', 'the database is damaged']],
  ['NOTADB', ['down', 'the file is no SQLite database, or is encrypted']],
  ['CANTOPEN', ['down', 'the file, its log or its folder cannot be opened']],
  ['PERM', ['no-permission', 'the file may not be used']],
  ['AUTH', ['no-permission', 'an authorizer forbids it']],
  ['INTERRUPT', ['down', 'somebody interrupted the connection']],
])

/** Under the general code, told apart by words that have not changed since SQLite 3.0. */
const WORDS: readonly (readonly [RegExp, Meaning])[] = [
  [/no such (?:table|column)/, ['down', 'a table is missing, or is none of this version']],
  [
    /(?:within|inside) a transaction/,
    ['down', 'the connection is inside a transaction of its owner; locks need one of their own'],
  ],
]

/** better-sqlite3, then node:sqlite. */
const CLOSED = /^The database connection is not open|^database is not open|has been finalized/

/** better-sqlite3, and no error of SQLite: the connection is somebody else's too. */
const ITERATING = /^This database connection is busy executing a query/

/** The primary result code without `SQLITE_`; null for what is no error of SQLite. */
export function sqliteCode(error: unknown): string | null {
  if (!(error instanceof Error)) return null
  const { code, errcode } = error as { code?: unknown; errcode?: unknown }
  if (typeof errcode === 'number') return NAMES.get(errcode & 0xff) ?? 'OTHER'
  if (typeof code !== 'string' || !code.startsWith('SQLITE_')) return null
  return code.split('_')[1] ?? 'OTHER'
}

/** Whether another connection is in the way, so that trying again may succeed. */
export function isBusy(error: unknown): boolean {
  const code = sqliteCode(error)
  return code === 'BUSY' || code === 'LOCKED' || code === 'PROTOCOL'
}

/**
 * The error that a caller gets; what is no error of SQLite is given back as it is.
 *
 * @param what What was being done, for the message.
 * @param stage `commit`: COMMIT was sent, so an I/O error leaves the outcome open.
 */
export function asSqliteError(error: unknown, what: string, stage?: 'commit'): unknown {
  if (error instanceof LockError) return error
  const code = sqliteCode(error)
  const message = error instanceof Error ? error.message : ''
  if (CLOSED.test(message)) return unavailable(['down', 'the database was closed'], what, error)
  if (ITERATING.test(message)) {
    return unavailable(['down', 'an iterator of its owner is open on the connection'], what, error)
  }
  if (code === null) return error
  if (stage === 'commit' && code === 'IOERR') {
    const words = `the commit of ${what} met an I/O error: it may have been applied`
    return new OutcomeUnknownError(words, { cause: error })
  }
  const byWords = code === 'ERROR' ? WORDS.find(([pattern]) => pattern.test(message))?.[1] : null
  const meaning = byWords ?? MEANINGS.get(code) ?? (['down', 'it gave an error'] as const)
  return unavailable(meaning, what, error)
}

function unavailable([why, words]: Meaning, what: string, cause: unknown): LockError {
  return new BackendUnavailableError(why, `SQLite did not do ${what}: ${words}`, { cause })
}
