/**
 * A guarded transaction: BEGIN IMMEDIATE, the claim, the user's work, COMMIT.
 *
 * Guarantees: COMMIT follows a good claim and the work, in their transaction, and from the claim to
 * COMMIT nobody else writes to the file. Whatever this rejects with was not applied, OutcomeUnknownError
 * excepted. After a lease is lost there is no COMMIT.
 *
 * The work of a function that returns no promise begins and ends within one turn of the event loop. An
 * asynchronous one leaves the transaction open while others run, so:
 *
 * - The end of its lease, or of `timeoutMs`, rolls back at once, and the next holder goes on. What the
 *   function sends later would be transactions of their own, outside the fence. Its handle refuses them
 *   (./handle.ts), and until it has settled the whole connection is `query_only`, so that what goes past
 *   the handle, by the connection itself or by statements that were prepared before, writes nothing.
 * - A savepoint with a name of its own tells at the end whether the transaction is still the one that
 *   the guard began: it went with it if the function ended that one and began another.
 *
 * Nothing here ends a transaction while the whole process stands still: SQLite has no server that could.
 *
 * Rejected: keeping the transaction open until the function settles, which is as safe, but lets a
 * function that hangs keep the file from everybody for ever.
 */
import { rollBack, type SqliteDatabase } from '../../clients/sqlite.ts'
import { isBusy, sqliteCode } from '../../clients/sqlite-errors.ts'
import {
  BackendUnavailableError,
  GuardBusyError,
  InvalidArgumentError,
  OutcomeUnknownError,
} from '../../core/errors.ts'
import { onLoss, timerMs } from '../shared/bound.ts'
import type { Call } from '../shared/call.ts'
import type { Claimed } from '../shared/record.ts'
import { commitFailed } from './brief.ts'
import { claimFailed, claimOn, readRecord } from './claiming.ts'
import { isInTransaction } from './connection.ts'
import { type Gate, handleOn } from './handle.ts'
import { alone, bounded, type Parts } from './parts.ts'
import { pragma, prepareConnection } from './settings.ts'

/** May return a promise; must not end the transaction. */
type Work<Db, T> = (tx: Db, claimed: Claimed) => T | PromiseLike<T>

/** Where a transaction stands when a turn of it ends. */
type Step<T> =
  | Readonly<{ kind: 'pending'; promise: PromiseLike<T> }>
  | Readonly<{ kind: 'committed'; value: T }>
  /** COMMIT is next; `error`: it was tried, and waits for others who read. */
  | Readonly<{ kind: 'waiting'; value: T; error: unknown }>
  /** Rolled back. */
  | Readonly<{ kind: 'failed'; error: unknown }>

/** How long until a rollback that an open iterator prevents is tried again. */
const AGAIN_MS = 10

export function runGuarded<Db extends SqliteDatabase, T>(
  parts: Parts<Db>,
  call: Call,
  work: Work<Db, T>,
): Promise<T> {
  const { bound, claim } = call
  return alone(parts, claim.resource, bound, async () => {
    const run = new Run<Db, T>(parts, call)
    let step = await bounded(parts, claim.resource, bound, () => run.start(work))
    if (step.kind === 'pending') step = await run.settle(step.promise)
    if (step.kind === 'waiting') step = await commitWaiting(parts, call, run, step.value)
    if (step.kind !== 'committed') throw (step as { error: unknown }).error
    return step.value
  })
}

async function commitWaiting<Db extends SqliteDatabase, T>(
  parts: Parts<Db>,
  { bound, claim }: Call,
  run: Run<Db, T>,
  value: T,
): Promise<Step<T>> {
  try {
    return await bounded(parts, claim.resource, bound, () => {
      const step = run.commit(value)
      if (step.kind === 'waiting') throw step.error
      return step
    })
  } catch (error) {
    return run.fail(error)
  }
}

class Run<Db extends SqliteDatabase, T> implements Gate {
  readonly #parts: Parts<Db>
  readonly #call: Call
  readonly #mark: string
  #seq = 0n
  /** What a statement is told from now on; null: go on. */
  #over: Error | null = null
  /** The work has settled, or was synchronous. */
  #isSettled = false
  #isReleased = false
  readonly #iterators = new Set<Iterator<unknown>>()
  /** What `query_only` is put back to; null: it was not touched. */
  #queryOnly: number | null = null

  constructor(parts: Parts<Db>, call: Call) {
    this.#parts = parts
    this.#call = call
    this.#mark = `"holdfast ${parts.seams.nonce()}"`
  }

  start(work: Work<Db, T>): Step<T> {
    const { db, settings } = this.#parts
    if (stuckOn.has(db)) end(db)
    prepareConnection(db, settings)
    db.exec('BEGIN IMMEDIATE')
    let claimed: Claimed
    try {
      claimed = claimOn(db, this.#parts, this.#call)
      db.exec(`SAVEPOINT ${this.#mark}`)
    } catch (error) {
      rollBack(db)
      throw claimFailed(settings.tablePrefix, error)
    }
    this.#seq = claimed.seq
    try {
      const result = work(handleOn(db, this), claimed)
      if (isPromiseLike(result)) return { kind: 'pending', promise: result }
      this.#isSettled = true
      return this.commit(result)
    } catch (error) {
      this.#isSettled = true
      return this.fail(error)
    }
  }

  async settle(promise: PromiseLike<T>): Promise<Step<T>> {
    const unwatch = this.#watch()
    let result: { readonly value: T } | { readonly error: unknown }
    try {
      result = { value: await promise }
    } catch (error) {
      result = { error }
    }
    unwatch()
    this.#isSettled = true
    if (this.#queryOnly !== null) return this.#afterCut(this.#over)
    if ('error' in result) return this.fail(result.error)
    return { kind: 'waiting', value: result.value, error: null }
  }

  /** May be called again after `waiting`. */
  commit(value: T): Step<T> {
    const { db } = this.#parts
    this.#look(null)
    if (this.#over !== null && !this.#isReleased) return this.fail(this.#over)
    const lost = this.#call.bound.loss()
    if (lost !== null) return this.fail(lost.error)
    this.#endIterators()
    if (!this.#isReleased && !this.#release()) return this.fail(this.#over)
    this.#over = ended()
    try {
      db.exec('COMMIT')
      return { kind: 'committed', value }
    } catch (error) {
      if (isBusy(error) && isInTransaction(db)) return { kind: 'waiting', value, error }
      return this.fail(commitFailed(error))
    }
  }

  /** Rolls back. What the work threw reaches the caller as it is, unless that could be misread. */
  fail(error: unknown): Step<T> {
    const { db } = this.#parts
    if (this.#over === null) this.#look({ error })
    const over = this.#over
    this.#over ??= ended()
    this.#endIterators()
    if (!end(db)) return { kind: 'failed', error: stuck(error) }
    return { kind: 'failed', error: over instanceof OutcomeUnknownError ? over : error }
  }

  enter(): void {
    this.#look(null)
    if (this.#over !== null) throw this.#over
  }

  leave(thrown: { readonly error: unknown } | null): void {
    this.#look(thrown)
  }

  began(iterator: Iterator<unknown>): void {
    this.#iterators.add(iterator)
  }

  #endIterators(): void {
    for (const iterator of this.#iterators) {
      try {
        iterator.return?.()
      } catch {
        // It is being stepped right now, or its connection is closed.
      }
    }
    this.#iterators.clear()
  }

  /** Notices when the transaction has ended before its time. */
  #look(thrown: { readonly error: unknown } | null): void {
    const { db, statements } = this.#parts
    if (this.#over !== null || isInTransaction(db)) return
    this.#over = endedByFn()
    const { op, resource, token } = this.#call.claim
    try {
      const row = readRecord(db, statements, resource)
      const isBefore =
        row === null ||
        row.token < BigInt(token) ||
        (row.token === BigInt(token) && row.op !== op && row.seq < this.#seq)
      if (isBefore) this.#over = rolledBack(thrown?.error)
    } catch {
      // Nothing could be learned: it may have been committed.
    }
  }

  /** Whether the transaction is the one that was begun here. */
  #release(): boolean {
    const { db } = this.#parts
    try {
      db.exec(`RELEASE ${this.#mark}`)
      this.#isReleased = true
    } catch (error) {
      this.#over = sqliteCode(error) === 'ERROR' ? endedByFn() : (error as Error)
    }
    return this.#isReleased
  }

  /** Ends the transaction at the end of its lease, or of the guard's time-out. */
  #watch(): () => void {
    const { bound } = this.#call
    const { seams } = this.#parts
    const cut = (): void => {
      unwatch()
      this.#cut()
    }
    const look = (): void => {
      if (bound.remainingMs() === 0) cut()
      else cancelTimer = seams.after(timerMs(bound), look, true)
    }
    let cancelTimer = seams.after(timerMs(bound), look, true)
    const unlisten = onLoss(bound, cut)
    const unwatch = (): void => {
      cancelTimer()
      unlisten()
    }
    return unwatch
  }

  #cut(): void {
    const { bound, claim } = this.#call
    const { db, settings, seams } = this.#parts
    if (this.#isSettled) return
    const late = `the function had not ended after ${settings.timeoutMs} ms`
    const { error = new GuardBusyError(claim.resource, late) } = bound.loss() ?? {}
    this.#over ??= error as Error
    this.#endIterators()
    try {
      this.#queryOnly ??= Number(pragma(db, 'query_only'))
      db.exec('PRAGMA query_only = 1')
      db.exec('ROLLBACK')
    } catch {
      // An iterator is open, and keeps the connection from everybody; or nothing is left to end.
    }
    if (isInTransaction(db)) seams.after(AGAIN_MS, () => this.#cut(), true)
  }

  /** The work has settled after its end, and writes nothing more. */
  #afterCut(over: unknown): Step<T> {
    const { db } = this.#parts
    const step = this.fail(over)
    try {
      db.exec(`PRAGMA query_only = ${this.#queryOnly ?? 0}`)
    } catch {
      // The connection is closed.
    }
    return step
  }
}

/** Connections whose transaction an iterator of the user's keeps open after its end. */
const stuckOn = new WeakSet<SqliteDatabase>()

/** Whether no transaction is open any more. */
function end(db: SqliteDatabase): boolean {
  rollBack(db)
  const isOpen = isInTransaction(db)
  if (isOpen) stuckOn.add(db)
  else stuckOn.delete(db)
  return !isOpen
}

function isPromiseLike<T>(value: T | PromiseLike<T>): value is PromiseLike<T> {
  const then = (value as { then?: unknown } | null | undefined)?.then
  return typeof then === 'function'
}

function endedByFn(): OutcomeUnknownError {
  return new OutcomeUnknownError(
    'the function given to transaction() ended the transaction itself: what it did before was ' +
      'applied or rolled back by that, and what it did after was not guarded',
  )
}

function ended(): InvalidArgumentError {
  const allowed = 'the one that a function of transaction() was given, until it ends'
  return new InvalidArgumentError('tx', 'a transaction that is over', allowed)
}

/** Of `INSERT OR ROLLBACK`, a full disk, a ROLLBACK of its own. */
function rolledBack(cause: unknown): BackendUnavailableError {
  const code = sqliteCode(cause)
  const why = code === 'FULL' || code === 'NOMEM' ? 'out-of-memory' : 'down'
  const what = 'the transaction was rolled back while its function ran; nothing was applied'
  return new BackendUnavailableError(why, what, { cause })
}

function stuck(cause: unknown): BackendUnavailableError {
  const what =
    'the function left an iterator open, so its transaction cannot be ended yet: nothing is applied, ' +
    'and the next guarded call on this connection ends it'
  return new BackendUnavailableError('down', what, { cause })
}
