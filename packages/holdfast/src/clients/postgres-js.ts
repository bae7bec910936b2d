/**
 * The driver `postgres` (porsager), 3.4 or newer: structural types, and its `sql` as a `Driver`.
 *
 * Its own `begin` keeps the connection to itself: BEGIN is awaited alone, which costs a round trip;
 * COMMIT cannot be timed or read; and nothing ends a transaction whose holder is too slow. So the
 * connection is reserved (`sql.reserve`), and `./postgres-js-transaction.ts` makes of it what the
 * user's function expects of a transaction.
 *
 * What the driver leaves to whoever reserves, and what is done about it here:
 *
 * - A connection that ends while it is idle is told to nobody. It is learned from the driver's own
 *   connection object, which a statement's option `onexecute` hands out, as `sql.begin` does it.
 * - The handle of a connection that has ended goes on sending: to nothing, which ends the process, or
 *   to the next session that the pool opens in its place, where a statement of the late holder would
 *   stand alone and be applied. Hence every statement passes a gate, which shuts with the connection.
 * - Statements that wait for their turn on a connection that ends are never settled. The gate rejects
 *   them.
 * - A request for a connection that meets a reconnect is forgotten. It is made again after a while.
 * - A reserved connection that has ended must not be released: the pool would lend it as an open one.
 */
import { InvalidArgumentError } from '../core/errors.ts'
import type { Seams } from '../core/seams.ts'
import { ClosedWhileIdle, inlined } from './postgres.ts'
import { Gate, type Lazy, transactionOf, unknownDriver } from './postgres-js-transaction.ts'
import type { Ask, Driver, PgAnswer, Preparable, Wire, Write } from './postgres-wire.ts'

/**
 * The `sql` of the package `postgres`, 3.4 or newer. Both forms of `begin` stand here because `Tx` is
 * inferred only from the whole set.
 */
export interface PostgresJs<Tx> {
  // biome-ignore lint/suspicious/noExplicitAny: what the driver declares.
  begin(fn: (sql: Tx) => any): Promise<any>
  // biome-ignore lint/suspicious/noExplicitAny: what the driver declares.
  begin(options: string, fn: (sql: Tx) => any): Promise<any>
  // biome-ignore lint/suspicious/noExplicitAny: its own type of this one names itself again.
  reserve(): Promise<any>
}

/** The driver's connection, as its option `onexecute` hands it out. */
interface Connection {
  onclose?: ((error: unknown) => void) | null
  terminate(): void
}

/** What a reserved connection is called by. */
interface Reserved {
  unsafe(text: string, values: readonly unknown[], options: object): Lazy
  release(): void
}

/** What we read of a result: a list of rows, which here are lists of buffers. */
type Result = readonly (readonly (Uint8Array | null)[])[] & {
  readonly command?: string
  readonly columns?: readonly { readonly name: string }[] | null
}

export function isPostgresJs(sql: unknown): sql is PostgresJs<unknown> {
  const { begin, reserve } = (sql ?? {}) as Partial<PostgresJs<unknown>>
  return typeof begin === 'function' && typeof reserve === 'function'
}

/** How long a request for a connection may wait before it is made again. It doubles. */
const ASK_AGAIN_MS = 200
/** 200 ms to 100 s. */
const ASK_AGAIN_MAX = 10

export function postgresJsDriver<Tx>(sql: PostgresJs<Tx>, seams: Seams): Driver<Tx> {
  // A pooler in transaction mode is used with this setting, and would lose what was prepared.
  const { prepare } = (sql as { options?: { prepare?: unknown } }).options ?? {}
  const canPrepare = prepare !== false
  return {
    pool: sql,
    async lend() {
      return new ReservedConnection<Tx>(await reserve(sql, seams), canPrepare)
    },
    inside(tx): Ask {
      const unsafe = unsafeOf(tx)
      return async (text, values) => answerOf(await unsafe(inlined(text, values), [], {}).raw())
    },
    writeInside(tx): Write {
      const unsafe = unsafeOf(tx)
      const options = { prepare: canPrepare }
      return async ({ text }, values) => answerOf(await unsafe(text, values, options).raw())
    },
  }
}

/** @throws InvalidArgumentError when `tx` is no transaction of the driver. */
function unsafeOf(tx: unknown): Reserved['unsafe'] {
  const { unsafe, savepoint, begin } = (tx ?? {}) as Partial<Lent>
  if (typeof unsafe !== 'function' || typeof savepoint !== 'function' || begin !== undefined) {
    throw new InvalidArgumentError('tx', tx, 'the sql that begin() gives to its function')
  }
  return unsafe
}

/** What tells a transaction of the driver from its pool. */
type Lent = Pick<Reserved, 'unsafe'> & { savepoint: unknown; begin: unknown }

/** The first connection that any of several requests gets; the others are given back when they come. */
function reserve<Tx>(sql: PostgresJs<Tx>, seams: Seams): Promise<Reserved> {
  return new Promise((resolve, reject) => {
    let isSettled = false
    let cancelTimer = (): void => undefined
    const settle = (): void => {
      isSettled = true
      cancelTimer()
    }
    const ask = (times: number): void => {
      request(sql).then(
        (reserved) => {
          if (isSettled) return reserved.release()
          settle()
          resolve(reserved)
        },
        (error) => {
          settle()
          reject(error)
        },
      )
      if (times === ASK_AGAIN_MAX) return
      cancelTimer = seams.after(ASK_AGAIN_MS * 2 ** times, () => ask(times + 1))
    }
    ask(0)
  })
}

/** Whatever the driver throws rejects here. */
async function request<Tx>(sql: PostgresJs<Tx>): Promise<Reserved> {
  return sql.reserve()
}

const ROW_TEXT = new TextDecoder()

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
        return [name, cell === null ? null : ROW_TEXT.decode(cell)]
      }),
    )
  })
  return { rows, command: result.command }
}

class ReservedConnection<Tx> implements Wire<Tx> {
  readonly tx: Tx
  readonly #reserved: Reserved
  readonly #gate = new Gate()
  readonly #canPrepare: boolean
  #connection: Connection | null = null
  #tell: (error: unknown) => void = () => undefined

  constructor(reserved: Reserved, canPrepare: boolean) {
    this.#reserved = reserved
    this.#canPrepare = canPrepare
    this.tx = transactionOf<Tx>(reserved, this.#gate)
  }

  listen(tell: (error: unknown) => void): void {
    this.#tell = tell
  }

  async query(text: string, values: string[] = []): Promise<PgAnswer> {
    return this.#answerOf(await this.#send(inlined(text, values)))
  }

  /**
   * The driver asks for the types of its arguments first, and hands out no connection with such a
   * statement; so one without arguments goes before it, in the same flight.
   */
  readonly write: Write = async ({ text }, values) => {
    const before = this.#connection === null ? this.#send('SELECT') : undefined
    const sent = this.#send(text, values, this.#canPrepare)
    const [, settled] = await Promise.allSettled([before, sent])
    if (settled.status === 'rejected') throw settled.reason
    return this.#answerOf(settled.value)
  }

  /**
   * Two messages in one flight. If BEGIN alone failed, the claim stands alone: it raises a fence to a
   * token that was granted, which is nobody's loss.
   */
  async open(begin: string, statement: Preparable, values: string[]): Promise<PgAnswer> {
    const began = this.#send(begin)
    const opened = this.#canPrepare
      ? this.#send(statement.text, values)
      : this.#send(inlined(statement.text, values))
    const [first, second] = await Promise.allSettled([began, opened])
    if (first.status === 'rejected') throw first.reason
    if (second.status === 'rejected') throw second.reason
    return this.#answerOf(second.value)
  }

  status(): null {
    return null
  }

  giveBack(): void {
    if (this.#connection !== null) this.#connection.onclose = null
    this.#gate.shut()
    this.#reserved.release()
  }

  destroy(): void {
    // The driver rejects what is on its way first: its error says more than the gate's.
    if (this.#connection === null) this.#reserved.release()
    else this.#connection.terminate()
    this.#gate.shut()
  }

  #send(
    text: string,
    values: unknown[] = [],
    prepare: boolean = values.length > 0,
  ): PromiseLike<unknown> {
    const options = { prepare, onexecute: this.#onExecute }
    return this.#gate.pass(this.#reserved.unsafe(text, values, options).raw()).execute()
  }

  #answerOf(answered: unknown): PgAnswer {
    if (this.#connection === null) throw unknownDriver()
    return answerOf(answered)
  }

  /** The driver goes on only if it is told so. */
  readonly #onExecute = (connection: Connection): true => {
    if (this.#connection === null) {
      this.#connection = connection
      connection.onclose = this.#onClose
    }
    return true
  }

  readonly #onClose = (error: unknown): void => {
    this.#tell(this.#gate.isIdle ? new ClosedWhileIdle(error) : error)
    this.#gate.shut()
  }
}
