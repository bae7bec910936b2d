/**
 * A connection that the pool lent for one guarded call.
 *
 * Whatever happens, it is given back once or destroyed once, and no `error` of its client goes
 * unheard: a server that ends an idle transaction (25P03) reports it there, and an unheard one ends
 * the process.
 */
import {
  isCausedBy,
  isConnectionLoss,
  lastAnswer,
  type PgAnswer,
  type PgClient,
  type PgPool,
  type PgPooled,
  unavailable,
} from '../../clients/postgres.ts'
import { BackendUnavailableError } from '../../core/errors.ts'
import type { Deadlines, Wait } from './deadlines.ts'

/** A ROLLBACK waits for nothing; one that takes longer is not going to be answered. */
const ROLLBACK_MS = 2000

/** What we use of the driver's connection below its client, where there is one. */
type Wired = { readonly connection?: { readonly stream?: { destroy?(): void } } }

/** The driver tells its transaction status since version 8.21: I idle, T in one, E in a failed one. */
type WithStatus = { getTransactionStatus?(): string | null }

/** As the driver tells it; null: it does not. */
export function transactionStatus(client: PgClient): string | null {
  return (client as WithStatus).getTransactionStatus?.() ?? null
}

export class Session<C extends PgClient> {
  readonly client: C
  readonly #pooled: PgPooled<C>
  readonly #deadlines: Deadlines
  #isOver = false
  /** Why the connection is of no more use. */
  #failure: unknown = null

  constructor(pooled: PgPooled<C>, deadlines: Deadlines) {
    this.client = pooled
    this.#pooled = pooled
    this.#deadlines = deadlines
    pooled.on?.('error', this.#onError)
  }

  /** For the answer to the one statement of ours that is on its way. */
  readonly #wait: Wait = {
    untilMs: 0,
    onEnd: () => {
      this.#failure ??= new BackendUnavailableError('down', 'PostgreSQL: no answer in time')
      this.destroy()
    },
  }

  readonly #onError = (error: unknown): void => {
    // The first says why; what follows only says that the connection is gone.
    this.#failure ??= error
  }

  get failure(): unknown {
    return this.#failure
  }

  /** Whether a statement could still reach the server. */
  get isUsable(): boolean {
    return !this.#isOver && this.#failure === null
  }

  /** Of a connection that is over: whether `error` says no more than that. */
  isOwnEnd(error: unknown): boolean {
    return isCausedBy(error, this.#failure) || isConnectionLoss(error)
  }

  /**
   * Sends one text; several statements in it are one round trip, and the last one's answer counts.
   * Without an answer within `withinMs` the connection is destroyed, which makes the driver reject.
   */
  async send(text: string, values: string[] | undefined, withinMs: number): Promise<PgAnswer> {
    this.#deadlines.start(this.#wait, withinMs)
    try {
      const { client } = this
      return lastAnswer(await (values ? client.query(text, values) : client.query(text)))
    } finally {
      this.#deadlines.stop(this.#wait)
    }
  }

  /**
   * Ends the transaction without effect and gives the connection back, or destroys it.
   *
   * @returns Whether the server answered: the connection was still good.
   */
  async rollBack(): Promise<boolean> {
    try {
      if (this.isUsable) await this.send('ROLLBACK', undefined, ROLLBACK_MS)
    } catch (error) {
      // The caller has a reason of its own for the rollback, and that is what it must see.
      this.#failure ??= error
    }
    const wasAlive = this.isUsable
    this.giveBack()
    return wasAlive
  }

  giveBack(): void {
    if (!this.isUsable) return this.destroy()
    this.#end(false)
    this.#pooled.removeListener?.('error', this.#onError)
  }

  /** The server ends the transaction when it sees the connection gone. */
  destroy(): void {
    if (this.#isOver) return
    const { connection } = this.client as Wired
    // The socket first: what the server still sends would reach the pool as an `error` event of a
    // connection that it has already written off, and an unheard one ends the process. Our own
    // listener stays for the same reason.
    connection?.stream?.destroy?.()
    this.#end(true)
  }

  #end(destroy: boolean): void {
    this.#isOver = true
    try {
      this.#pooled.release(destroy)
    } catch {
      // Only when it was released already, by whoever was not to: there is nothing left to give back.
    }
  }
}

/**
 * A connection from the pool.
 *
 * @param withinMs The pool itself may have no bound, and nobody can leave its queue: a connection
 *   that comes too late is given back at once.
 * @throws BackendUnavailableError.
 */
export function borrow<C extends PgClient>(
  pool: PgPool<C>,
  withinMs: number,
  deadlines: Deadlines,
): Promise<Session<C>> {
  return new Promise((resolve, reject) => {
    let isWaiting = true
    const wait: Wait = {
      untilMs: 0,
      onEnd: () => {
        isWaiting = false
        const what = `no connection from the pool within ${Math.round(withinMs)} ms`
        reject(new BackendUnavailableError('backlog', `PostgreSQL: ${what}`))
      },
    }
    deadlines.start(wait, withinMs)
    connect(pool).then(
      (pooled) => {
        if (!isWaiting) return pooled.release()
        deadlines.stop(wait)
        resolve(new Session(pooled, deadlines))
      },
      (error) => {
        deadlines.stop(wait)
        reject(unavailable(error, 'no connection'))
      },
    )
  })
}

/** A pool that throws instead of rejecting rejects here. */
async function connect<C extends PgClient>(pool: PgPool<C>): Promise<PgPooled<C>> {
  return pool.connect()
}
