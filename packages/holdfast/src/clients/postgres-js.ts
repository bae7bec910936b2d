/**
 * The driver `postgres` (porsager) 3.4: structural types, and its `sql` as a `Driver`.
 *
 * Neither of its two ways to keep a connection will do. `sql.begin` awaits BEGIN alone, which costs a
 * round trip, sends a COMMIT that cannot be timed or read, and cannot end a transaction whose holder is
 * too slow. `sql.reserve` loses connections: a request that meets one whose last session was ended by
 * the server is rejected, and the pool then lends that connection to nobody, for good; and a request
 * that meets a reconnect is never answered.
 *
 * So BEGIN is a query like any other, and takes its connection by the option `onexecute`, as `begin`
 * does it inside the driver: the hook sets `connection.reserved`, which the driver takes back itself
 * when the server says that no transaction is open any more. Whether that is still ours is asked before
 * every statement (`Gate`), because the driver's handles go on sending after their connection has
 * ended: to nothing, which ends the process, or to the next session in its place, where a statement of
 * a late holder would stand alone and be applied.
 */
import { InvalidArgumentError } from '../core/errors.ts'
import { ClosedWhileIdle, inlined, sqlState, unavailable } from './postgres.ts'
import {
  type Connection,
  Gate,
  type Lazy,
  type Sql,
  transactionOf,
  unknownDriver,
} from './postgres-js-transaction.ts'
import type { Ask, Driver, PgAnswer, Preparable, Wire, Write } from './postgres-wire.ts'

/**
 * The `sql` of the package `postgres`, 3.4. Both forms of `begin` stand here because `Tx` is inferred
 * only from the whole set.
 */
export interface PostgresJs<Tx> {
  // biome-ignore lint/suspicious/noExplicitAny: what the driver declares.
  begin(fn: (sql: Tx) => any): Promise<any>
  // biome-ignore lint/suspicious/noExplicitAny: what the driver declares.
  begin(options: string, fn: (sql: Tx) => any): Promise<any>
}

export function isPostgresJs(sql: unknown): sql is PostgresJs<unknown> {
  const { begin, unsafe } = (sql ?? {}) as { begin?: unknown; unsafe?: unknown }
  return typeof sql === 'function' && typeof begin === 'function' && typeof unsafe === 'function'
}

/**
 * How a server ends a session. The driver keeps such an error when a statement was on its way, and
 * rejects with it the first query of the next session, which it then does not send.
 */
const LAST_WORDS = /^(?:57P01|57P02|57P05|25P03|25P04)$/

function isOfBefore(error: unknown): boolean {
  return LAST_WORDS.test(sqlState(error) ?? '')
}

/** Each try uses up one such error; few pools have more connections. */
const TRIES_MAX = 32

export function postgresJsDriver<Tx>(pool: PostgresJs<Tx>): Driver<Tx> {
  const sql = pool as unknown as Sql
  if (typeof sql.unsafe('').handler !== 'function') throw unknownDriver()
  // A pooler in transaction mode is used with this setting, and would lose what was prepared.
  const { prepare } = (sql as { options?: { prepare?: unknown } }).options ?? {}
  const canPrepare = prepare !== false
  return {
    pool,
    async lend(begin) {
      if (begin === null) return new LooseConnection<Tx>(sql, canPrepare)
      for (let tries = 1; ; tries++) {
        const wire = new HeldConnection<Tx>(sql, canPrepare)
        try {
          await wire.begin(begin)
          return wire
        } catch (error) {
          if (wire.wasHeld || !isOfBefore(error) || tries === TRIES_MAX) throw error
        }
      }
    },
    inside(tx): Ask {
      const unsafe = unsafeOf(tx)
      return async (text, values) => answerOf(await unsafe(inlined(text, values), []).raw())
    },
    writeInside(tx): Write {
      const unsafe = unsafeOf(tx)
      const options = { prepare: canPrepare }
      return async ({ text }, values) => answerOf(await unsafe(text, values, options).raw())
    },
  }
}

/** @throws InvalidArgumentError when `tx` is no transaction of the driver. */
function unsafeOf(tx: unknown): Sql['unsafe'] {
  const own = (tx ?? {}) as Partial<Record<'unsafe' | 'savepoint' | 'begin', unknown>>
  if (typeof own.unsafe !== 'function' || typeof own.savepoint !== 'function' || own.begin) {
    throw new InvalidArgumentError('tx', tx, 'the sql that begin() gives to its function')
  }
  return (tx as Sql).unsafe
}

/** What we read of a result: a list of rows, which here are lists of buffers. */
type Result = readonly (readonly (Uint8Array | null)[])[] & {
  readonly command?: string
  readonly count?: number | null
  readonly columns?: readonly { readonly name: string }[] | null
}

const CELL = new TextDecoder()

/**
 * Rows by column name. The buffers are what the server sent: the user's own parsers and transforms
 * are for the user's rows. Names come transformed, so ours are single words and compared in lower case.
 */
function answerOf(answered: unknown): PgAnswer {
  const isList = (answered as Result).command === undefined
  const result = (isList ? (answered as Result[]).at(-1) : answered) as Result
  const names = (result.columns ?? []).map(({ name }) => name.toLowerCase())
  const rows = [...result].map((row) => {
    const cells = Object.values(row)
    return Object.fromEntries(
      names.map((name, index) => {
        const cell = cells[index] ?? null
        return [name, cell === null ? null : CELL.decode(cell)]
      }),
    )
  })
  return { rows, command: result.command, rowCount: result.count }
}

/** For statements outside of any transaction: each goes to whichever connection is free. */
class LooseConnection<Tx> implements Wire<Tx> {
  readonly tx: Tx
  readonly #sql: Sql
  readonly #canPrepare: boolean
  #query: Lazy | null = null

  constructor(sql: Sql, canPrepare: boolean) {
    this.tx = sql as unknown as Tx
    this.#sql = sql
    this.#canPrepare = canPrepare
  }

  query(text: string, values: string[] = []): Promise<PgAnswer> {
    return this.#send(() => this.#sql.unsafe(inlined(text, values), []))
  }

  readonly write: Write = ({ text }, values) =>
    this.#send(() => this.#sql.unsafe(text, values, { prepare: this.#canPrepare }))

  async #send(make: () => Lazy): Promise<PgAnswer> {
    for (let tries = 1; ; tries++) {
      const query = make().raw()
      this.#query = query
      try {
        return answerOf(await query)
      } catch (error) {
        // Sent to nobody: there was no connection, or only the words of an earlier one.
        if (query.state !== null) throw error
        if (!isOfBefore(error) || tries === TRIES_MAX) throw unavailable(error, 'no connection')
      }
    }
  }

  open(): never {
    throw new TypeError('no transaction was asked for when this connection was lent')
  }

  status(): string {
    return 'I'
  }

  mayBeOpen(): boolean {
    return false
  }

  listen(): void {}

  giveBack(): void {}

  destroy(): void {
    const query = this.#query
    query?.reject(new Error('PostgreSQL: no answer in time'))
    // One that still waits for a connection would be sent when nobody expects it any more.
    if (query?.state === null) void query.canceller?.(query)
  }
}

/** A connection from BEGIN to the end of its transaction. */
class HeldConnection<Tx> implements Wire<Tx> {
  readonly tx: Tx
  readonly #sql: Sql
  readonly #canPrepare: boolean
  readonly #gate = new Gate()
  #began: PromiseLike<unknown> = Promise.resolve()
  #tell: (error: unknown) => void = () => undefined

  constructor(sql: Sql, canPrepare: boolean) {
    this.#sql = sql
    this.#canPrepare = canPrepare
    this.tx = transactionOf<Tx>(sql, this.#gate)
  }

  /**
   * Resolves when the connection is ours. BEGIN is then written but not sent yet, so that what follows
   * at once travels with it; unless the connection was busy with queries of others, which it would be
   * sent behind: then the server has answered BEGIN.
   */
  begin(text: string): Promise<void> {
    return new Promise((resolve, reject) => {
      const onexecute = (connection: Connection): false => {
        this.#gate.hold(connection, this.#onClose)
        if (query.active) resolve()
        return false
      }
      const query = this.#sql.unsafe(text, [], { onexecute })
      this.#began = Promise.resolve(query)
      this.#began.then(() => resolve(), reject)
    })
  }

  /** Whether BEGIN was written to a connection. */
  get wasHeld(): boolean {
    return this.#gate.wasHeld
  }

  listen(tell: (error: unknown) => void): void {
    this.#tell = tell
  }

  async query(text: string, values: string[] = []): Promise<PgAnswer> {
    return answerOf(await this.#send(inlined(text, values)))
  }

  readonly write: Write = async ({ text }, values) =>
    answerOf(await this.#send(text, values, this.#canPrepare))

  /**
   * If BEGIN alone fails, the claim stands alone: it raises a fence to a token that was granted, which
   * is nobody's loss.
   */
  async open({ text }: Preparable, values: string[]): Promise<PgAnswer> {
    const opened = this.#canPrepare ? this.#send(text, values) : this.#send(inlined(text, values))
    const [first, second] = await Promise.allSettled([this.#began, opened])
    if (first.status === 'rejected') throw first.reason
    if (second.status === 'rejected') throw second.reason
    return answerOf(second.value)
  }

  /** The driver takes the connection back as soon as the server says that no transaction is open. */
  status(): string {
    return this.#gate.isHeld ? 'T' : 'I'
  }

  mayBeOpen(): boolean {
    return this.#gate.isHeld
  }

  giveBack(): void {
    if (this.#gate.isHeld) this.destroy()
    this.#gate.shut()
  }

  /** The driver rejects what is on its way before the gate does, because its error says more. */
  destroy(): void {
    this.#gate.terminate()
    this.#gate.shut()
  }

  #send(text: string, values: unknown[] = [], prepare = values.length > 0): PromiseLike<unknown> {
    return this.#gate.pass(this.#sql.unsafe(text, values, { prepare })).raw()
  }

  readonly #onClose = (error: unknown): void => {
    this.#tell(this.#gate.isIdle ? new ClosedWhileIdle(error) : error)
    this.#gate.shut()
  }
}
