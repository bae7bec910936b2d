/**
 * What the user's function works with on a connection of the driver `postgres`: the shape of the
 * driver's own transaction, behind a gate that is open while the connection is ours.
 */
import { InvalidArgumentError } from '../core/errors.ts'
import { quoteIdentifier } from './postgres.ts'

/** A query of the driver: nothing is sent before somebody waits for it. */
export interface Lazy extends PromiseLike<unknown> {
  /** Sends the query. The driver sets it when the query is made, and calls it once. */
  handler?: (query: Lazy) => unknown
  /** Whether the connection works on it, and on nothing before it. */
  readonly active?: boolean
  /** Null: it was not sent yet. */
  readonly state?: object | null
  /** Takes a query that was not sent out of the line for a connection. */
  canceller?: ((query: Lazy) => Promise<void>) | null
  reject(error: unknown): void
  raw(): Lazy
}

/** The driver's `sql`: a template tag, which is also called with other things to make parts of queries. */
export type Sql = ((first: unknown, ...rest: unknown[]) => unknown) & {
  unsafe(text: string, ...rest: unknown[]): Lazy
}

/** The driver's connection, as its option `onexecute` hands it out. */
export interface Connection {
  /** Whoever it is reserved for; called when all that was sent is answered. */
  reserved?: (() => void) | null
  /** Called once. */
  onclose?: ((error: unknown) => void) | null
  /** @returns Whether it takes more before this one is answered. */
  execute(query: Lazy): unknown
  terminate(): void
}

/** By the driver's own code, because it means the same. */
function gone(): Error {
  const message = 'the connection of this transaction has ended'
  return Object.assign(new Error(message), { code: 'CONNECTION_CLOSED' })
}

/** The driver has changed where we lean on it: better no guard than one that lets late writers in. */
export function unknownDriver(): InvalidArgumentError {
  const given = 'a driver whose statements cannot be held back'
  return new InvalidArgumentError('pool', given, 'the sql of postgres 3.4')
}

/** Lets statements through while the connection is ours, and rejects them from then on. */
export class Gate {
  #connection: Connection | null = null
  #isShut = false
  /** The connection takes nothing before what it has is answered. */
  #isFull = false
  readonly #waiting: Lazy[] = []
  readonly #pending = new Set<Lazy>()

  hold(connection: Connection, onClose: (error: unknown) => void): void {
    this.#connection = connection
    connection.reserved = this.#next
    connection.onclose = onClose
  }

  /** The driver clears `reserved` itself when the transaction or the session is over. */
  get isHeld(): boolean {
    return !this.#isShut && this.#connection?.reserved === this.#next
  }

  get wasHeld(): boolean {
    return this.#connection !== null
  }

  /** Whether no statement is on its way. */
  get isIdle(): boolean {
    return this.#pending.size === 0
  }

  /** The same query, which asks the gate at the moment when it is to be sent. */
  pass(query: Lazy): Lazy {
    query.handler = this.#send
    return query
  }

  readonly #send = (query: Lazy): void => {
    if (!this.isHeld) return query.reject(gone())
    this.#pending.add(query)
    const end = (): void => {
      this.#pending.delete(query)
      if (!this.isHeld) this.shut()
    }
    query.then(end, end)
    if (this.#isFull) this.#waiting.push(query)
    else this.#execute(query)
  }

  #execute(query: Lazy): void {
    this.#isFull = !this.#connection?.execute(query)
  }

  readonly #next = (): void => {
    this.#isFull = false
    const query = this.#waiting.shift()
    if (query !== undefined) this.#execute(query)
  }

  /** What is ours and open is ended at the server; what is not ours is not touched. */
  terminate(): void {
    if (this.isHeld) this.#connection?.terminate()
  }

  shut(): void {
    this.#isShut = true
    const pending = [...this.#pending]
    this.#pending.clear()
    for (const query of pending) query.reject(gone())
  }
}

function isTemplate(first: unknown): boolean {
  return Array.isArray((first as { raw?: unknown } | null)?.raw)
}

export function transactionOf<Tx>(sql: Sql, gate: Gate): Tx {
  const tag = (first: unknown, ...rest: unknown[]): unknown => {
    const made = sql(first, ...rest)
    return isTemplate(first) ? gate.pass(made as Lazy) : made
  }
  const { types, typed, array, json } = sql as unknown as Record<string, unknown>
  const unsafe: Sql['unsafe'] = (text, ...rest) => gate.pass(sql.unsafe(text, ...rest))
  const own = {
    ...{ types, typed, array, json, unsafe },
    // The driver's own sends it from another connection, whether this transaction commits or not.
    notify: (channel: string, payload: string) =>
      unsafe('SELECT pg_notify($1, $2)', [channel, String(payload)]),
    async file(path: unknown): Promise<never> {
      const allowed = 'none in a guarded transaction: read the file first, then unsafe(text)'
      throw new InvalidArgumentError('file', path, allowed)
    },
    async prepare(name: unknown): Promise<never> {
      const allowed = 'none: a guarded transaction is ended by the guard'
      throw new InvalidArgumentError('prepare', name, allowed)
    },
    savepoint: savepointOf(tag, unsafe),
  }
  return Object.assign(tag, own) as Tx
}

type Body = (tx: unknown) => unknown

/** As the driver has it: what `fn` throws undoes what it did, and no more. */
function savepointOf(
  tx: unknown,
  unsafe: Sql['unsafe'],
): (...given: [fn: Body] | [name: string, fn: Body]) => Promise<unknown> {
  let count = 0
  return async (...given) => {
    const [label, fn] = given.length === 1 ? ['', given[0]] : given
    const name = quoteIdentifier(`s${count++}_${label}`)
    await unsafe(`SAVEPOINT ${name}`)
    try {
      const made = await fn(tx)
      return Array.isArray(made) ? await Promise.all(made) : made
    } catch (error) {
      await unsafe(`ROLLBACK TO SAVEPOINT ${name}`)
      throw error
    }
  }
}
