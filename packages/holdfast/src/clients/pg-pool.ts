/**
 * The driver `pg`, or anything of its shape: structural types, and its pool as a `Driver`.
 *
 * The first statement of a transaction travels together with BEGIN, as one text and one round trip:
 * the session keeps it prepared, and the text EXECUTEs it. A connection that forgets it (a pooler that
 * hands out another server session, DISCARD ALL) answers 26000; from then on that connection gets the
 * statement written out, which costs no round trip either, but parsing and planning.
 */
import { InvalidArgumentError } from '../core/errors.ts'
import { isInFlight, isPipelined, notPipelined, PgAhead } from './pg-ahead.ts'
import { writeOn } from './pg-write.ts'
import { inlined, quoteLiteral, sqlState } from './postgres.ts'
import type { Ahead, Ask, Driver, PgAnswer, Preparable, Wire, Write } from './postgres-wire.ts'

/** A client of `pg` (Client, PoolClient), or anything of that shape. */
export interface PgClient {
  query(
    text: string,
    values?: unknown[],
    // The driver's rows are `any`; `unknown` here would keep its clients from fitting.
  ): Promise<{
    // biome-ignore lint/suspicious/noExplicitAny: what the driver declares.
    rows: any[]
    rowCount: number | null
  }>
  // biome-ignore lint/suspicious/noExplicitAny: each event of the driver has arguments of its own.
  on?(event: string, listener: (...args: any[]) => void): unknown
  // biome-ignore lint/suspicious/noExplicitAny: the same.
  removeListener?(event: string, listener: (...args: any[]) => void): unknown
}

/** A client that a pool lent; `true` ends its connection instead of keeping it. */
export type PgPooled<C extends PgClient> = C & { release(destroy?: boolean): void }

/** A `Pool` of `pg`. Both overloads stand here because `C` is inferred only from the whole set. */
export interface PgPool<C extends PgClient> {
  connect(): Promise<PgPooled<C>>
  // biome-ignore lint/suspicious/noExplicitAny: never called by us.
  connect(callback: any): any
}

/** A single client has a `connect` too, which works once: the second call would find "no connection". */
export function isPgPool(pool: unknown): pool is PgPool<PgClient> {
  const { connect, setTypeParser } = (pool ?? {}) as { connect?: unknown; setTypeParser?: unknown }
  return typeof connect === 'function' && setTypeParser === undefined
}

export function pgDriver<C extends PgClient>(pool: PgPool<C>): Driver<C> {
  return {
    pool,
    lend(begin) {
      return pool.connect().then((client) => new PooledClient(client, begin))
    },
    inside(tx): Ask {
      checkInside(tx, pool)
      return (text, values) => tx.query(text, values)
    },
    writeInside(tx): Write {
      checkInside(tx, pool)
      return writeOn(tx)
    },
  }
}

/** The driver tells its transaction status since version 8.21. */
type WithStatus = { getTransactionStatus?(): string | null }

function statusOf(client: PgClient): string | null {
  return (client as WithStatus).getTransactionStatus?.() ?? null
}

/** A pool has the shape of a client, but each of its statements is a transaction of its own. */
function checkInside<C extends PgClient>(tx: C, pool: PgPool<C>): void {
  const shape = tx as { query?: unknown; totalCount?: unknown } | null
  const isPool = (tx as unknown) === pool || typeof shape?.totalCount === 'number'
  if (isPool || typeof shape?.query !== 'function') {
    throw new InvalidArgumentError('tx', tx, 'the client whose transaction to work in')
  }
  if (statusOf(tx) === 'I' && !isInFlight(tx)) {
    throw new InvalidArgumentError('tx', tx, 'a client inside a transaction: send BEGIN first')
  }
}

/** Drivers give a list only for several statements. */
function lastAnswer(answer: unknown): PgAnswer {
  return (Array.isArray(answer) ? answer.at(-1) : answer) as PgAnswer
}

/** What we use of the driver's connection below its client, where there is one. */
type Wired = { readonly connection?: { readonly stream?: { destroy?(): void } } }

/**
 * How a connection takes a statement with BEGIN: `new` has never met it, `prepared` has it, `plain`
 * forgets it. By the statement's own name, because two guards may share a connection.
 */
type Form = 'new' | 'prepared' | 'plain'
const forms = new WeakMap<PgClient, Map<string, Form>>()

function setForm(client: PgClient, name: string, form: Form): void {
  const own = forms.get(client) ?? new Map<string, Form>()
  forms.set(client, own.set(name, form))
}

const STATEMENT_EXISTS = '42P05'
const STATEMENT_MISSING = '26000'

/** Each form is left at most once, never for an earlier one, so that `open` comes to an end. */
function nextForm(form: Form, state: string | null): Form | null {
  if (form === 'new' && state === STATEMENT_EXISTS) return 'prepared'
  return form === 'prepared' && state === STATEMENT_MISSING ? 'plain' : null
}

function openingText(form: Form, { name, types, text }: Preparable, values: string[]): string {
  if (form === 'plain') return inlined(text, values)
  const execute = `EXECUTE ${name}(${values.map(quoteLiteral).join(', ')})`
  return form === 'new' ? `PREPARE ${name} ${types} AS ${text}; ${execute}` : execute
}

class PooledClient<C extends PgClient> implements Wire<C> {
  readonly tx: C
  readonly #pooled: PgPooled<C>
  readonly #isTransaction: boolean
  /** The client as the guard's own statements use it: those that are held back are the user's. */
  #own: Pick<PgClient, 'query'>
  #isAhead = false
  /** What the next statement is to be sent behind. */
  #begin: string | null
  #tell: (error: unknown) => void = () => undefined

  constructor(pooled: PgPooled<C>, begin: string | null) {
    this.tx = pooled
    this.#pooled = pooled
    this.#own = pooled
    this.#begin = begin
    this.#isTransaction = begin !== null
    pooled.on?.('error', this.#onError)
  }

  /**
   * A server that ends an idle transaction (25P03) reports it by this event, and an unheard one ends
   * the process.
   */
  readonly #onError = (error: unknown): void => this.#tell(error)

  listen(tell: (error: unknown) => void): void {
    this.#tell = tell
  }

  readonly write: Write = (statement, values) => writeOn(this.tx)(statement, values)

  query(text: string, values: string[] = []): Promise<PgAnswer> {
    const begin = this.#begin
    if (begin !== null) {
      this.#begin = null
      const first = values.length > 0 ? inlined(text, values) : text
      return this.#own.query(`${begin}; ${first}`).then(lastAnswer)
    }
    // Without arguments the driver takes the protocol that allows several statements.
    const sent = values.length > 0 ? this.#own.query(text, values) : this.#own.query(text)
    return sent.then(lastAnswer)
  }

  async open(statement: Preparable, values: string[]): Promise<PgAnswer> {
    const { name } = statement
    const begin = this.#begin
    for (;;) {
      const form = forms.get(this.tx)?.get(name) ?? 'new'
      try {
        const answer = await this.query(openingText(form, statement, values))
        if (form === 'new') setForm(this.tx, name, 'prepared')
        return answer
      } catch (error) {
        const next = nextForm(form, sqlState(error))
        if (next === null) throw error
        setForm(this.tx, name, next)
        // What went ahead has failed with it.
        if (this.#isAhead) throw error
        await this.query('ROLLBACK')
        this.#begin = begin
      }
    }
  }

  ahead({ name }: Preparable): Ahead | null {
    if (!isPipelined(this.tx)) throw notPipelined()
    // Only a text that names its statement is plain ASCII whatever the schema is called, so that no
    // encoding can make its BEGIN fail.
    if (forms.get(this.tx)?.get(name) !== 'prepared') return null
    this.#isAhead = true
    this.#own = { query: this.tx.query.bind(this.tx) }
    return new PgAhead(this.tx)
  }

  status(): string | null {
    return statusOf(this.tx)
  }

  /** The driver rejects with the server's error before it has read what the error did. */
  mayBeOpen(): boolean {
    return this.#isTransaction && this.#begin === null
  }

  giveBack(): void {
    this.#release(false)
    this.#pooled.removeListener?.('error', this.#onError)
  }

  destroy(): void {
    const { connection } = this.tx as Wired
    // The socket first: what the server still sends would reach the pool as an `error` event of a
    // connection that it has already written off, and an unheard one ends the process. Our own
    // listener stays for the same reason.
    connection?.stream?.destroy?.()
    this.#release(true)
  }

  #release(destroy: boolean): void {
    try {
      this.#pooled.release(destroy)
    } catch {
      // Only when it was released already, by whoever was not to: there is nothing left to give back.
    }
  }
}
