/**
 * The column form: a write of one row that carries the fence in the row itself.
 *
 * Guarantees: after a write with a token, no write with a smaller one is applied to that row, now or
 * later; no call is applied twice, whatever the network repeats or keeps back. Whatever this rejects
 * with was not applied, OutcomeUnknownError excepted. Does not guarantee anything for what was read
 * before: see `PostgresGuard.update`.
 *
 * The write is one statement, and without a transaction of the caller's it is a transaction of its
 * own: a holder that stops leaves nothing locked behind, so of the claim's three time-outs only the
 * wait for the row's lock is left to bound.
 *
 * When its answer is lost, the same statement is sent again, with the same op and the same `seqMax`,
 * on a new connection. The row's lock orders it with the first one, which may still be on its way:
 *
 * - applied: the first one was not, and finds its own op in the row if it ever comes.
 * - refused with my op in the row: the first one was applied.
 * - refused otherwise (a larger token, another op of mine with seq > seqMax, no row any more): mine
 *   may have been applied before that. Unknown.
 *
 * Rejected: only looking, as after a lost COMMIT. There the old transaction holds its row, and its
 * end tells; a statement that never arrived holds nothing, and could arrive after the look.
 */
import { isConnectionLoss, isForgotten, sqlState, unavailable } from '../../clients/postgres.ts'
import type { Write } from '../../clients/postgres-wire.ts'
import {
  GuardBusyError,
  InvalidArgumentError,
  LockError,
  OutcomeUnknownError,
} from '../../core/errors.ts'
import { TOKEN_MAX } from '../../core/token.ts'
import { type Refused, refusalOf } from '../shared/column-refusal.ts'
import { type ReadWrite, rowKey } from '../shared/column-write.ts'
import { type Call, type Parts, pause } from './call.ts'
import { ColumnStatements, readValues, type Shape, writeValues } from './column-statements.ts'
import { borrow, type Session } from './session.ts'
import { ANSWER_ALLOWANCE_MS, borrowFor, isSerializationFailure } from './transaction.ts'

/**
 * `applied`: by this call, once. `already-applied`: by an earlier call with the same `op`, which is
 * still the last one on that row. `missing-row`: `where` finds none, and nothing was written.
 */
export type PostgresUpdateResult = 'applied' | 'already-applied' | 'missing-row'

/** Each means that another transaction went first. */
const TRIES_MAX = 20
const RETRY_DELAY_MS = 2
const RETRY_DELAY_MS_MAX = 64
/** A caller must be told something; a server that restarts is back by then. */
const SETTLE_MS_MAX = 30_000
const SETTLE_DELAY_MS = 50
const SETTLE_DELAY_MS_MAX = 1000
/** Rows whose count is remembered. A forgotten one costs its next write two round trips more. */
const SEEN_MAX = 5000

/** What is written: the same in each try. */
type Writing = Readonly<{ call: Call; write: ReadWrite; shape: Shape }>

/** In a transaction of the caller's, `seq` of what was applied is not asked for. */
type Answer = Readonly<{ kind: 'applied'; seq: bigint }> | Refused

/** The statement was sent, and whether it was applied is not known. */
class AnswerLost extends Error {}

export class ColumnUpdates<Tx> {
  readonly #parts: Parts<Tx>
  readonly #statements: ColumnStatements
  /** By lease and row: the count of the last write that was seen, oldest first. */
  readonly #seen = new Map<string, bigint>()

  constructor(parts: Parts<Tx>) {
    this.#parts = parts
    this.#statements = new ColumnStatements(parts.settings.columns)
  }

  /** In the caller's transaction, where the caller decides what follows an error. */
  async inTransaction(send: Write, call: Call, write: ReadWrite): Promise<PostgresUpdateResult> {
    const writing = { call, write, shape: this.#statements.shapeOf(write) }
    try {
      // A row that changed after the refusal is asked once more.
      for (let tries = 0; tries < 2; tries++) {
        // Nothing of a transaction that broke can arrive late, so the count need not be known.
        const answer = await exchange(writing, TOKEN_MAX, null, send)
        if (answer.kind !== 'may-now') return resultOf(answer)
      }
    } catch (error) {
      const state = sqlState(error)
      const isTheirs = isSerializationFailure(error) || state === '57014' || state === '25P02'
      throw isTheirs ? error : explain(writing, error)
    }
    throw changedEachTime(writing)
  }

  /** As a transaction of its own. */
  alone(call: Call, write: ReadWrite): Promise<PostgresUpdateResult> {
    const writing = { call, write, shape: this.#statements.shapeOf(write) }
    const key = [call.claim.owner, rowKey(write)].join('\0')
    const work = async (): Promise<PostgresUpdateResult> => {
      const answer = await this.#write(writing, this.#seen.get(key) ?? 0n)
      if (answer.kind !== 'missing') this.#remember(key, answer.seq)
      return resultOf(answer)
    }
    const { turns, statements } = this.#parts
    const turn = ['row', statements.schema, key].join('\0')
    return turns.run(turn, call.claim.resource, call.bound, work)
  }

  #remember(key: string, seq: bigint): void {
    this.#seen.delete(key)
    this.#seen.set(key, seq)
    const [oldest = key] = this.#seen.keys()
    if (this.#seen.size > SEEN_MAX) this.#seen.delete(oldest)
  }

  async #write(writing: Writing, known: bigint): Promise<Answer> {
    const { bound } = writing.call
    let seqMax = known
    for (let tries = 0; tries < TRIES_MAX; tries++) {
      try {
        const answer = await this.#send(writing, seqMax)
        if (answer.kind !== 'may-now') return answer
        seqMax = answer.seq
      } catch (error) {
        if (error instanceof AnswerLost) return this.#settle(writing, seqMax, error.cause)
        if (!isSerializationFailure(error) && !isForgotten(error)) throw explain(writing, error)
      }
      // The first refusal only tells the count.
      if (tries > 0) await this.#pause(RETRY_DELAY_MS * 2 ** tries, RETRY_DELAY_MS_MAX)
    }
    bound.assertValid()
    throw changedEachTime(writing)
  }

  #pause(delayMs: number, delayMsMax: number): Promise<void> {
    const { seams } = this.#parts
    return pause(seams, Math.min(delayMs, delayMsMax) * seams.jitter())
  }

  /** One statement on a connection of its own, and why it was refused. */
  async #send(writing: Writing, seqMax: bigint): Promise<Answer> {
    const { session, limitMs } = await borrowFor(this.#parts, writing.call.bound, null)
    return await exchangeOn(session, writing, seqMax, limitMs)
  }

  async #settle(writing: Writing, seqMax: bigint, cause: unknown): Promise<Answer> {
    const { seams, driver, deadlines } = this.#parts
    const { bound } = writing.call
    const untilMs = seams.nowMs() + Math.min(bound.limitMs() + ANSWER_ALLOWANCE_MS, SETTLE_MS_MAX)
    for (let delayMs = SETTLE_DELAY_MS; ; delayMs *= 2) {
      const restMs = Math.floor(untilMs - seams.nowMs())
      if (restMs <= 0) throw unknown(writing, cause)
      try {
        const session = await borrow(driver, restMs, deadlines, null)
        // Once the lease is over nothing more is sent for it; the row may still tell.
        const answer = await (bound.loss() === null
          ? exchangeOn(session, writing, seqMax, restMs)
          : lookOn(session, writing, restMs))
        if (answer.kind === 'applied') return answer
        if (answer.kind === 'repeat') return { kind: 'applied', seq: answer.seq }
        if (answer.kind === 'missing' || answer.seq > seqMax) throw unknown(writing, cause)
      } catch (error) {
        if (!mayPass(error))
          throw error instanceof OutcomeUnknownError ? error : unknown(writing, error)
      }
      await this.#pause(delayMs, SETTLE_DELAY_MS_MAX)
    }
  }
}

function exchange(
  writing: Writing,
  seqMax: bigint,
  limitMs: number | null,
  send: Write,
): Promise<Answer> {
  const { call, write, shape } = writing
  const values = writeValues(write, { claim: call.claim, seqMax, limitMs })
  const statement = limitMs === null ? shape.inTransaction : shape.alone
  return send(statement, values).then(({ rowCount, rows }): Answer | Promise<Answer> => {
    if ((rowCount ?? 0) === 0) return look(writing, send)
    return { kind: 'applied', seq: BigInt(String(rows[0]?.['seq'] ?? 0)) }
  })
}

async function look(writing: Writing, send: Write): Promise<Refused> {
  const { write, shape } = writing
  return refusalOf(writing, shape.adoption, (await send(shape.read, readValues(write))).rows)
}

/** Gives the connection back, or destroys it. */
async function exchangeOn<Tx>(
  session: Session<Tx>,
  writing: Writing,
  seqMax: bigint,
  limitMs: number,
): Promise<Answer> {
  let isAnswered = false
  const send: Write = async (statement, values) => {
    const answer = await session.write(statement, values, limitMs + ANSWER_ALLOWANCE_MS)
    isAnswered = true
    return answer
  }
  try {
    return await exchange(writing, seqMax, limitMs, send)
  } catch (error) {
    if (error instanceof LockError) throw error
    if (sqlState(error) !== null && !isOver(session, error)) throw error
    session.destroy()
    // The driver's own complaint about a value: nothing was sent.
    if (error instanceof TypeError || error instanceof RangeError) throw error
    if (isAnswered) throw unavailable(error, 'the connection was lost')
    throw new AnswerLost('the answer was lost', { cause: error })
  } finally {
    session.giveBack()
  }
}

async function lookOn<Tx>(
  session: Session<Tx>,
  writing: Writing,
  withinMs: number,
): Promise<Refused> {
  try {
    return await look(writing, (statement, values) => session.write(statement, values, withinMs))
  } catch (error) {
    if (isOver(session, error)) session.destroy()
    throw error
  } finally {
    session.giveBack()
  }
}

function isOver<Tx>(session: Session<Tx>, error: unknown): boolean {
  return !session.isUsable || isConnectionLoss(error)
}

function resultOf({ kind }: Answer): PostgresUpdateResult {
  if (kind === 'missing') return 'missing-row'
  return kind === 'repeat' ? 'already-applied' : 'applied'
}

function changedEachTime({ call }: Writing): GuardBusyError {
  return new GuardBusyError(call.claim.resource, 'its row changed each time it was written')
}

function unknown({ call, write }: Writing, cause: unknown): OutcomeUnknownError {
  const { op, resource } = call.claim
  const what = `the answer to a write of ${write.table} for "${resource}" was lost`
  const how = `its row does not tell whether it was applied (op "${op}")`
  return new OutcomeUnknownError(`${what}, and ${how}`, { cause })
}

/** While settling: no connection, or a row that is locked or changes. */
function mayPass(error: unknown): boolean {
  if (error instanceof AnswerLost || isConnectionLoss(error)) return true
  if (isSerializationFailure(error) || isForgotten(error) || sqlState(error) === '55P03')
    return true
  return error instanceof LockError && error.code === 'BACKEND_UNAVAILABLE'
}

/** What the caller is told of a statement that the server refused: nothing was applied. */
function explain({ call, write }: Writing, error: unknown): unknown {
  if (error instanceof LockError) return error
  const state = sqlState(error)
  const { message } = error as Error
  if (state === '42P01' || state === '3F000') {
    return new InvalidArgumentError('table', write.table, `a table that exists: ${message}`)
  }
  if (state === '42703') {
    const allowed = `one with these columns and the guard's (guard.ddlFor(table) adds those): ${message}`
    return new InvalidArgumentError('table', write.table, allowed)
  }
  if (state === '55P03' || state === '57014') {
    const lost = call.bound.loss()
    if (lost !== null) return lost.error
    if (state === '57014') return error
    const what = 'another transaction keeps its row locked'
    return new GuardBusyError(call.claim.resource, what, { cause: error })
  }
  const isOurs =
    isForgotten(error) || isConnectionLoss(error) || /^(?:42501|25006|53)/.test(state ?? '')
  return isOurs ? unavailable(error, 'the write failed') : error
}
