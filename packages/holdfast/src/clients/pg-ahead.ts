/**
 * Statements of the user's by a client of `pg` in pipeline mode, while the claim of their transaction
 * is on its way.
 *
 * A read goes out at once, behind the claim, and its answer is kept back until the claim's verdict is
 * in. Everything else waits here: nothing but reads is ever sent for a holder that may be superseded,
 * so that a COMMIT, or a write whose BEGIN failed, cannot take effect before the verdict. Order is
 * kept: behind a statement that waits, reads wait too.
 *
 * For the time of the flight the client's own `query` is another one, as a property of that object. A
 * client of our own making would not be the one that the user's tools know.
 */
import { InvalidArgumentError } from '../core/errors.ts'
import type { PgClient } from './pg-pool.ts'
import type { Ahead } from './postgres-wire.ts'

type Query = (...args: unknown[]) => unknown
type Callback = (error: unknown) => void

/** What `pg` calls a query of a class of its own: it is told of its failure by a method. */
type Submittable = {
  submit?: unknown
  handleError?(error: unknown, connection: unknown): void
}

/** What we read of a client and its pool beyond the declared shape. */
type Piped = {
  readonly pipeline?: unknown
  readonly connection?: { readonly stream?: { cork?(): void; uncork?(): void } }
}
type Optioned = { readonly options?: { readonly pipeline?: unknown } }

const ALLOWED = 'a Pool of pg made with pipeline: true; pg without native bindings'

/** @throws InvalidArgumentError for a pool that says of itself that it makes other clients. */
export function checkPipelinedPool(pool: object): void {
  const { options } = pool as Optioned
  if (options !== undefined && options.pipeline !== true) throw notPipelined()
}

/** The error of a guard whose connections cannot be pipelined. */
export function notPipelined(): InvalidArgumentError {
  return new InvalidArgumentError('pipelined', true, `false, or ${ALLOWED}`)
}

/** Native bindings batch what they send by rules of their own, and have no `connection`. */
export function isPipelined(client: PgClient): boolean {
  const { pipeline, connection } = client as Piped
  return pipeline === true && connection !== undefined
}

/** Clients whose transaction has been begun, although none of them has heard of it yet. */
const inFlight = new WeakSet<PgClient>()

export function isInFlight(client: PgClient): boolean {
  return inFlight.has(client)
}

/** One statement that reads, with nothing behind it. What says more, such as a comment, may wait. */
const READ = /^\s*select\b[^;]*;?\s*$/i
const WRITES_BY_SELECT = /\binto\b/i

function isRead(config: unknown): boolean {
  const text = typeof config === 'string' ? config : (config as { text?: unknown } | null)?.text
  return typeof text === 'string' && READ.test(text) && !WRITES_BY_SELECT.test(text)
}

/** What is kept back: `send` when the verdict is good, or else the error. */
type Held = Readonly<{ letGo: () => void; refuse: (error: unknown) => void }>

export class PgAhead implements Ahead {
  readonly #client: PgClient
  readonly #own: Query
  /** What stood on the client itself, for example an observer's. */
  readonly #before: PropertyDescriptor | undefined
  #held: Held[] = []
  #isQueueing = false
  #refusal: { readonly error: unknown } | null = null
  #isOver = false
  hasCarriedOut = false

  constructor(client: PgClient) {
    this.#client = client
    this.#own = client.query as Query
    inFlight.add(client)
    this.#before = Object.getOwnPropertyDescriptor(client, 'query')
    ;(client as { query: unknown }).query = this.#query
    this.#gather()
  }

  /** Claim and reads of one turn leave in one write: each wakes the server. */
  #gather(): void {
    const { stream } = (this.#client as Piped).connection ?? {}
    stream?.cork?.()
    process.nextTick(() => stream?.uncork?.())
  }

  readonly #query: Query = (...args) => {
    const send = (): unknown => this.#own.apply(this.#client, args)
    if (this.#isOver) return send()
    const [config] = args
    const { submit } = (config ?? {}) as Submittable
    if (typeof submit === 'function') {
      this.#hold(send, (error) => this.#fail(config as Submittable, error))
      return config
    }
    const callback = callbackOf(args)
    if (callback !== null) {
      this.#hold(send, callback)
      return undefined
    }
    return this.#answer(send, isRead(config))
  }

  #answer(send: () => unknown, mayGoAhead: boolean): Promise<unknown> {
    const isSent = mayGoAhead && !this.#isQueueing
    const sent = isSent ? this.#sendAhead(send) : null
    const answer = new Promise((resolve, reject) => {
      const letGo = (): void => resolve(sent ?? send())
      if (isSent) this.#keep({ letGo, refuse: reject })
      else this.#hold(letGo, reject)
    })
    // A refusal is told to the caller of the whole transaction, whether or not this is awaited.
    answer.catch(() => undefined)
    return answer
  }

  #sendAhead(send: () => unknown): Promise<unknown> {
    const sent = send() as Promise<unknown>
    sent.then(
      () => {
        this.hasCarriedOut = true
      },
      () => undefined,
    )
    return sent
  }

  #hold(send: () => unknown, refuse: (error: unknown) => void): void {
    this.#isQueueing = true
    this.#keep({ letGo: () => void send(), refuse })
  }

  #keep(held: Held): void {
    if (this.#refusal === null) this.#held.push(held)
    else held.refuse(this.#refusal.error)
  }

  /** As the driver itself tells it. */
  #fail(query: Submittable, error: unknown): void {
    const { connection } = this.#client as Piped
    process.nextTick(() => query.handleError?.(error, connection))
  }

  letGo(): void {
    this.close()
    for (const { letGo } of this.#take()) letGo()
  }

  stop(): void {
    this.#isQueueing = true
  }

  refuse(error: unknown): void {
    this.#refusal = { error }
    for (const held of this.#take()) held.refuse(error)
  }

  #take(): readonly Held[] {
    const held = this.#held
    this.#held = []
    return held
  }

  close(): void {
    if (this.#isOver) return
    this.#isOver = true
    inFlight.delete(this.#client)
    const client = this.#client as { query?: unknown }
    // Somebody who has put his own in place of it since keeps that; ours only hands on from now on.
    if (client.query !== this.#query) return
    delete client.query
    if (this.#before !== undefined) Object.defineProperty(client, 'query', this.#before)
  }
}

/** The driver takes one as its last argument, or inside of a configuration. */
function callbackOf(args: readonly unknown[]): Callback | null {
  const [config, values, callback] = args
  const inside = (config as { callback?: unknown } | null | undefined)?.callback
  const found = [values, callback, inside].find((one) => typeof one === 'function')
  return (found as Callback | undefined) ?? null
}
