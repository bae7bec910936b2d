/**
 * What we call of a SQLite driver: better-sqlite3 12, and node:sqlite from Node 22.13.
 *
 * Guarantees:
 * S1. The event loop is not held for more than a few milliseconds: SQLite itself waits 2 ms for another
 *     writer, and the rest of the waiting is timers; and after 4 ms of work without a pause the next
 *     call waits for one. A commit that the disk keeps waiting is the exception.
 * S2. All work of one call is one transaction, which begins and ends within one turn of the event loop:
 *     no statement of anybody else falls into it. First come, first served on a connection.
 * S3. Nothing is tried after `untilMs`, and what is refused until shortly before it is told then: the
 *     engine gives up at that moment too, and would only know that there was no answer.
 * S4. What is not `isOfThisBoot` is on the disk when the call ends, as far as `synchronous` of the connection
 *     goes: SQLite syncs the whole log, so what others have written before it is there too.
 */
import type { CancelTimer } from '../core/clock.ts'
import { BackendUnavailableError, InvalidArgumentError } from '../core/errors.ts'
import type { Seams } from '../core/seams.ts'
import { asSqliteError, isBusy } from './sqlite-errors.ts'

export interface SqliteStatement {
  run(...parameters: unknown[]): { changes: number | bigint }
  get(...parameters: unknown[]): unknown
  all(...parameters: unknown[]): unknown[]
}

/** A `Database` of better-sqlite3, or a `DatabaseSync` of node:sqlite. */
export interface SqliteDatabase {
  exec(sql: string): unknown
  prepare(sql: string): SqliteStatement
}

/** As a column comes: text, a number, or a bigint where the owner of the connection chose so. */
export type SqliteRow = Readonly<Record<string, unknown>>

/** What one call may use. */
export type SqliteBounds = Readonly<{
  /** On the clock of `seams`; nothing is tried after it. */
  untilMs: number
  /** What is being done, for messages: `an acquire`. */
  what: string
  /**
   * Whether the connection is used for nothing else, so that its busy time-out may stay short, and its
   * `synchronous` is what it was. If not, the owner's time-out is put back after each try.
   */
  isOurs?: boolean
  /** S4. What is written means nothing after a boot, so that it need not wait for the disk. */
  isOfThisBoot?: boolean
}>

/** For SQLite's own waiting, which holds the event loop. */
const BUSY_TIMEOUT_MS = 2
const HELD_MS_MAX = 4
/** The log is synced before it is taken into the file, not at each commit. */
const SYNCHRONOUS_NORMAL = 1
const RETRY_MS_FIRST = 1
const RETRY_MS_MAX = 16
/** S3. Of a call with less than ten times as much to go: a tenth of that. */
const TELL_MS = 10
const ALLOWED = 'an open database of better-sqlite3 or node:sqlite'

/**
 * Checks the argument, and asks for the path of its file: empty for a database that no other process
 * can see.
 *
 * @throws InvalidArgumentError for anything but an open database of a driver that answers at once.
 */
export function sqliteFileOf(db: SqliteDatabase, option = 'database'): string {
  const shape = db as Partial<Record<keyof SqliteDatabase, unknown>> | null
  const isObject = typeof shape === 'object' && shape !== null
  if (!isObject || typeof shape.exec !== 'function' || typeof shape.prepare !== 'function') {
    throw new InvalidArgumentError(option, db, ALLOWED)
  }
  let rows: unknown
  try {
    rows = prepared(db, 'PRAGMA database_list').all()
  } catch (error) {
    const failure = asSqliteError(error, 'a look at the database')
    // Only a closed database refuses what touches no file.
    if (failure instanceof BackendUnavailableError) {
      throw new InvalidArgumentError(option, db, `${ALLOWED}; ${failure.message}`)
    }
    throw new InvalidArgumentError(option, db, ALLOWED)
  }
  // A driver with callbacks gives itself.
  if (!Array.isArray(rows)) throw new InvalidArgumentError(option, db, ALLOWED)
  const main = (rows as SqliteRow[]).find(({ name }) => name === 'main')
  return String(main?.['file'] ?? '')
}

/** Settings of a connection can change how rows come; for our own statements they are set back. */
interface Tunable extends SqliteStatement {
  /** better-sqlite3. */
  safeIntegers?(on: boolean): unknown
  /** node:sqlite. */
  setReadBigInts?(on: boolean): unknown
  setReturnArrays?(on: boolean): unknown
}

/** A statement whose rows are objects with numbers; 64-bit integers must leave as text. */
export function prepared(db: SqliteDatabase, sql: string): SqliteStatement {
  const statement = db.prepare(sql) as Tunable
  statement.setReturnArrays?.(false)
  statement.setReadBigInts?.(false)
  statement.safeIntegers?.(false)
  return statement
}

/** Whose turn it is on one connection, and for how long its work has held the event loop. */
class Connection {
  /** Set once the connection is known to be used for nothing else. */
  hasShortTimeout = false
  /** `synchronous`, once the connection is known to be used for nothing else; null before. */
  level: number | null = null
  /** What the last try was refused by; null: it was not. */
  inTheWay: unknown = null
  #isTaken = false
  readonly #waiting: (() => void)[] = []
  #heldMs = 0
  #cancelTurn: CancelTimer | null = null
  #pause: { over: Promise<void>; end: () => void } | null = null

  /** Null: it is the caller's turn already. `leave` must follow. */
  enter(): Promise<void> | null {
    if (this.#isTaken) return new Promise((resolve) => this.#waiting.push(resolve))
    this.#isTaken = true
    return null
  }

  leave(): void {
    const next = this.#waiting.shift()
    if (next === undefined) this.#isTaken = false
    else next()
  }

  /** S1. Null: no pause is due. */
  get pause(): Promise<void> | null {
    return this.#pause?.over ?? null
  }

  /** Notes that the event loop has been held since `sinceMs`. */
  held(seams: Seams, sinceMs: number): void {
    this.#heldMs += seams.nowMs() - sinceMs
    // Fires in another turn of the event loop: then others have had theirs.
    this.#cancelTurn ??= seams.after(0, () => this.#turned())
    if (this.#heldMs < HELD_MS_MAX || this.#pause !== null) return
    let end = (): void => undefined
    const over = new Promise<void>((resolve) => {
      end = resolve
    })
    this.#pause = { over, end }
    // From now on a caller may be waiting for it.
    this.#cancelTurn.keepAlive?.(true)
  }

  #turned(): void {
    this.#heldMs = 0
    this.#cancelTurn = null
    this.#pause?.end()
    this.#pause = null
  }
}

const connections = new WeakMap<SqliteDatabase, Connection>()

function connectionOf(db: SqliteDatabase): Connection {
  const known = connections.get(db)
  if (known) return known
  const fresh = new Connection()
  connections.set(db, fresh)
  return fresh
}

/**
 * Runs `fn` in a transaction that has the only write lock of the file from its beginning.
 *
 * @param fn Synchronous. It may run again, after a ROLLBACK, where a COMMIT is refused because others
 *   read (never in WAL mode). What it throws reaches the caller after a ROLLBACK.
 * @param whileBusy Only reads. While another connection has the write lock, what it returns is the
 *   answer, unless that is null.
 * @throws BackendUnavailableError when nothing was applied; OutcomeUnknownError when the commit met
 *   an I/O error. Errors that are none of SQLite's as they are.
 */
export function immediately<T>(
  db: SqliteDatabase,
  seams: Seams,
  bounds: SqliteBounds,
  fn: () => T,
  whileBusy: () => T | null = () => null,
): Promise<T> {
  const once = (): T => {
    try {
      return transaction(db, bounds.what, fn)
    } catch (error) {
      const answer = isBusy(error) ? whileBusy() : null
      if (answer === null) throw error
      return answer
    }
  }
  return inTurn(db, seams, bounds, bounds.isOfThisBoot ? () => unsynced(db, bounds, once) : once)
}

function transaction<T>(db: SqliteDatabase, what: string, fn: () => T): T {
  db.exec('BEGIN IMMEDIATE')
  let isCommitting = false
  try {
    const result = fn()
    isCommitting = true
    db.exec('COMMIT')
    return result
  } catch (error) {
    rollBack(db)
    if (isBusy(error)) throw error
    throw asSqliteError(error, what, isCommitting ? 'commit' : undefined)
  }
}

/** S4. The level is put back at once: what the owner of the connection writes next may need it. */
function unsynced<T>(db: SqliteDatabase, { isOurs = false }: SqliteBounds, once: () => T): T {
  const connection = connectionOf(db)
  const before = connection.level ?? levelOf(db)
  if (isOurs) connection.level = before
  if (before <= SYNCHRONOUS_NORMAL) return once()
  db.exec(`PRAGMA synchronous = ${SYNCHRONOUS_NORMAL}`)
  try {
    return once()
  } finally {
    db.exec(`PRAGMA synchronous = ${before}`)
  }
}

/** Carried out while it is prepared, as in `withShortTimeout`. */
function levelOf(db: SqliteDatabase): number {
  const [row] = prepared(db, 'PRAGMA synchronous').all() as SqliteRow[]
  return Number(row?.['synchronous'])
}

/** Runs `fn`, which only reads, in no transaction; again while another connection is in the way. */
export function reading<T>(
  db: SqliteDatabase,
  seams: Seams,
  bounds: SqliteBounds,
  fn: () => T,
): Promise<T> {
  return inTurn(db, seams, bounds, fn)
}

/**
 * Runs `attempt` in its turn, and again while another connection is in the way: it begins what it needs,
 * and leaves nothing open when it throws.
 *
 * @throws as `immediately`.
 */
export async function inTurn<T>(
  db: SqliteDatabase,
  seams: Seams,
  bounds: SqliteBounds,
  attempt: () => T,
): Promise<T> {
  const connection = connectionOf(db)
  const lastMs = lastTryMs(bounds, seams.nowMs())
  const turn = connection.enter()
  if (turn !== null) await turn
  try {
    let refused: unknown = null
    for (let delayMs = RETRY_MS_FIRST; ; delayMs = Math.min(2 * delayMs, RETRY_MS_MAX)) {
      const { pause } = connection
      if (pause !== null) await pause
      const startedAtMs = seams.nowMs()
      // S3.
      if (startedAtMs > lastMs) throw refused ?? tooLate(bounds, connection)
      try {
        const result = withShortTimeout(db, connection, bounds, attempt)
        connection.inTheWay = null
        return result
      } catch (error) {
        if (!isBusy(error)) throw asSqliteError(error, bounds.what)
        connection.inTheWay = error
        refused = asSqliteError(error, bounds.what)
      } finally {
        connection.held(seams, startedAtMs)
      }
      const leftMs = lastMs - seams.nowMs()
      if (leftMs <= 0) throw refused
      await after(seams, Math.min(leftMs, delayMs * (1 + seams.jitter())))
    }
  } finally {
    connection.leave()
  }
}

/** S3. */
function lastTryMs({ untilMs }: SqliteBounds, nowMs: number): number {
  return untilMs - Math.max(0, Math.min(TELL_MS, (untilMs - nowMs) / 10))
}

/** Those before it had no luck either, or they took all the time. */
function tooLate({ what }: SqliteBounds, { inTheWay }: Connection): unknown {
  if (inTheWay !== null) return asSqliteError(inTheWay, what)
  const words = `SQLite did not do ${what}: earlier calls on this connection took all its time`
  return new BackendUnavailableError('backlog', words)
}

function after(seams: Seams, delayMs: number): Promise<void> {
  return new Promise((resolve) => {
    seams.after(delayMs, resolve, true)
  })
}

/** S1. SQLite carries out this PRAGMA while it is prepared, so a statement cannot be kept for it. */
function withShortTimeout<T>(
  db: SqliteDatabase,
  connection: Connection,
  { isOurs = false }: SqliteBounds,
  attempt: () => T,
): T {
  if (connection.hasShortTimeout) return attempt()
  const [before] = prepared(db, 'PRAGMA busy_timeout').all() as SqliteRow[]
  db.exec(`PRAGMA busy_timeout = ${BUSY_TIMEOUT_MS}`)
  connection.hasShortTimeout = isOurs
  try {
    return attempt()
  } finally {
    if (!isOurs) db.exec(`PRAGMA busy_timeout = ${Number(before?.['timeout'] ?? 0)}`)
  }
}

/** Some errors make SQLite roll back by itself, and then there is nothing left to do. */
export function rollBack(db: SqliteDatabase): void {
  try {
    db.exec('ROLLBACK')
  } catch {
    // No transaction is active, or the connection is closed: either way it is over.
  }
}
