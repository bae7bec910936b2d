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
import type { Seams } from '../../core/seams.ts'
import type { Bound } from './bound.ts'

/** A ROLLBACK waits for nothing; one that takes longer is not going to be answered. */
const ROLLBACK_MS = 2000

/** What we use of the driver's connection below its client, where there is one. */
type Wired = { readonly connection?: { readonly stream?: { destroy?(): void } } }

/** The driver tells its transaction status since version 8.21: I idle, T in one, E in a failed one. */
type WithStatus = { getTransactionStatus?(): string | null }

export class Session<C extends PgClient> {
  readonly client: C
  readonly #pooled: PgPooled<C>
  readonly #seams: Seams
  #isOver = false
  /** What the client reported outside any statement. */
  #failure: unknown = null

  constructor(pooled: PgPooled<C>, seams: Seams) {
    this.client = pooled
    this.#pooled = pooled
    this.#seams = seams
    pooled.on?.('error', this.#onError)
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

  get transactionStatus(): string | null {
    return (this.client as WithStatus).getTransactionStatus?.() ?? null
  }

  /** Of a connection that is over: whether `error` says no more than that. */
  isOwnEnd(error: unknown): boolean {
    return isCausedBy(error, this.#failure) || isConnectionLoss(error)
  }

  /** Sends one text; several statements in it are one round trip, and the last one's answer counts. */
  async send(text: string, values: string[] | undefined, withinMs: number): Promise<PgAnswer> {
    const answer = values === undefined ? this.client.query(text) : this.client.query(text, values)
    return lastAnswer(await this.#within(answer, withinMs))
  }

  /**
   * Ends the transaction without effect and gives the connection back, or destroys it.
   *
   * @returns Whether the server answered: the connection was still good.
   */
  async rollBack(): Promise<boolean> {
    try {
      if (!this.isUsable) throw this.#failure
      await this.send('ROLLBACK', undefined, ROLLBACK_MS)
      this.giveBack()
      return true
    } catch {
      // The caller has a reason of its own for the rollback, and that is what it must see.
      this.destroy()
      return false
    }
  }

  giveBack(): void {
    if (this.#failure !== null) return this.destroy()
    this.#end(false)
    this.#pooled.removeListener?.('error', this.#onError)
  }

  /** The server ends the transaction when it sees the connection gone. */
  destroy(): void {
    if (this.#isOver)
      return // The socket first: what the server still sends would reach the pool as an `error` event of a
      // connection that it has already written off, and an unheard one ends the process. Our own
      // listener stays for the same reason.
    ;(this.client as Wired).connection?.stream?.destroy?.()
    this.#end(true)
  }

  #end(destroy: boolean): void {
    if (this.#isOver) return
    this.#isOver = true
    try {
      this.#pooled.release(destroy)
    } catch {
      // Only when it was released already, by whoever was not to: there is nothing left to give back.
    }
  }

  #within<T>(answer: Promise<T>, withinMs: number): Promise<T> {
    return new Promise((resolve, reject) => {
      const cancelTimer = this.#seams.after(
        withinMs,
        () => {
          this.destroy()
          const what = `no answer within ${Math.round(withinMs)} ms`
          reject(new BackendUnavailableError('down', `PostgreSQL: ${what}`))
        },
        true,
      )
      answer.then(resolve, reject).finally(cancelTimer)
    })
  }
}

/**
 * A connection from the pool.
 *
 * @param withinMs The pool itself may have no bound, and nobody can leave its queue: a connection
 *   that comes too late is given back at once.
 * @throws LeaseLostError, BackendUnavailableError.
 */
export function borrow<C extends PgClient>(
  pool: PgPool<C>,
  bound: Pick<Bound, 'signal' | 'loss'>,
  withinMs: number,
  seams: Seams,
): Promise<Session<C>> {
  return new Promise((resolve, reject) => {
    const { signal } = bound
    let isWaiting = true
    const stop = (): void => {
      isWaiting = false
      cancelTimer()
      signal?.removeEventListener('abort', onAbort)
    }
    const onAbort = (): void => {
      const loss = bound.loss()
      if (loss === null) return
      stop()
      reject(loss.error)
    }
    const giveUp = (): void => {
      stop()
      const what = `no connection from the pool within ${Math.round(withinMs)} ms`
      reject(bound.loss()?.error ?? new BackendUnavailableError('backlog', `PostgreSQL: ${what}`))
    }
    const cancelTimer = seams.after(withinMs, giveUp, true)
    signal?.addEventListener('abort', onAbort)
    connect(pool).then(
      (pooled) => {
        if (!isWaiting) return pooled.release()
        stop()
        resolve(new Session(pooled, seams))
      },
      (error) => {
        if (!isWaiting) return
        stop()
        reject(bound.loss()?.error ?? unavailable(error, 'no connection'))
      },
    )
  })
}

/** A pool that throws instead of rejecting rejects here. */
async function connect<C extends PgClient>(pool: PgPool<C>): Promise<PgPooled<C>> {
  return await pool.connect()
}
