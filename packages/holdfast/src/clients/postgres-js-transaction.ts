/**
 * What the user's function works with on a reserved connection of the driver `postgres`: the shape of
 * the driver's own transaction, behind a gate that shuts when the connection is not ours any more.
 */
import { InvalidArgumentError } from '../core/errors.ts'
import { quoteIdentifier } from './postgres.ts'

/** A query of the driver: nothing is sent before somebody waits for it. */
export interface Lazy extends PromiseLike<unknown> {
  /** Sends the query. The driver sets it when the query is made, and calls it once. */
  handler?: (query: Lazy) => unknown
  reject(error: unknown): void
  raw(): Lazy
  execute(): Lazy
}

/** By the driver's own code, because it means the same. */
function gone(): Error {
  const message = 'the connection of this transaction has ended'
  return Object.assign(new Error(message), { code: 'CONNECTION_CLOSED' })
}

/** Lets statements through while the connection is ours, and rejects them from then on. */
export class Gate {
  #isOpen = true
  readonly #pending = new Set<Lazy>()

  /** Whether no statement is on its way. */
  get isIdle(): boolean {
    return this.#pending.size === 0
  }

  /** The same query, which asks the gate at the moment when it is to be sent. */
  pass(query: Lazy): Lazy {
    const { handler } = query
    if (typeof handler !== 'function') throw unknownDriver()
    query.handler = (sent) => {
      if (!this.#isOpen) return sent.reject(gone())
      this.#pending.add(sent)
      const end = (): unknown => this.#pending.delete(sent)
      sent.then(end, end)
      return handler(sent)
    }
    return query
  }

  shut(): void {
    this.#isOpen = false
    for (const query of this.#pending) query.reject(gone())
    this.#pending.clear()
  }
}

/** The driver has changed where we lean on it: better no guard than one that lets late writers in. */
export function unknownDriver(): InvalidArgumentError {
  const given = 'a driver whose statements cannot be held back'
  return new InvalidArgumentError('pool', given, 'the sql of postgres 3.4')
}

type Unsafe = (text: string, ...rest: unknown[]) => Lazy

/** A reserved `sql`: a template tag, which is also called with other things to make parts of queries. */
type Sql = ((first: unknown, ...rest: unknown[]) => unknown) & { readonly unsafe: Unsafe }

function isTemplate(first: unknown): boolean {
  return Array.isArray((first as { raw?: unknown } | null)?.raw)
}

export function transactionOf<Tx>(reserved: unknown, gate: Gate): Tx {
  const sql = reserved as Sql
  const tag = (first: unknown, ...rest: unknown[]): unknown => {
    const made = sql(first, ...rest)
    return isTemplate(first) ? gate.pass(made as Lazy) : made
  }
  const unsafe: Unsafe = (text, ...rest) => gate.pass(sql.unsafe(text, ...rest))
  const own = {
    unsafe,
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
    release: undefined,
  }
  return Object.assign(tag, sql, own) as Tx
}

type Body = (tx: unknown) => unknown

/** As the driver has it: what `fn` throws undoes what it did, and no more. */
function savepointOf(
  tx: unknown,
  unsafe: Unsafe,
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
