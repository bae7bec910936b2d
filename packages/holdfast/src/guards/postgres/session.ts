/**
 * A connection that the pool lent for one guarded call.
 *
 * Whatever happens, it is given back once or destroyed once, and no failure of it goes unheard.
 */
import { isCausedBy, isConnectionLoss, unavailable } from '../../clients/postgres.ts'
import type {
  Ahead,
  Driver,
  NamedText,
  PgAnswer,
  Preparable,
  Wire,
} from '../../clients/postgres-wire.ts'
import { BackendUnavailableError } from '../../core/errors.ts'
import type { Deadlines, Wait } from './deadlines.ts'

/** A ROLLBACK waits for nothing; one that takes longer is not going to be answered. */
const ROLLBACK_MS = 2000

export class Session<Tx> {
  /** What the user's function works with. */
  readonly tx: Tx
  readonly #wire: Wire<Tx>
  readonly #deadlines: Deadlines
  #isOver = false
  #isUndone = false
  /** Why the connection is of no more use. */
  #failure: { readonly why: unknown; readonly atMs: number } | null = null

  constructor(wire: Wire<Tx>, deadlines: Deadlines) {
    this.tx = wire.tx
    this.#wire = wire
    this.#deadlines = deadlines
    wire.listen((error) => this.#fail(error))
  }

  /** For the answer to the one statement of ours that is on its way. */
  readonly #wait: Wait = {
    untilMs: 0,
    onEnd: () => {
      this.#fail(new BackendUnavailableError('down', 'PostgreSQL: no answer in time'))
      this.destroy()
    },
  }

  #fail(why: unknown): void {
    // The first says why; what follows only says that the connection is gone.
    this.#failure ??= { why, atMs: this.#deadlines.nowMs() }
  }

  get failure(): unknown {
    return this.#failure?.why ?? null
  }

  /** When `failure` came. */
  get failedAtMs(): number | null {
    return this.#failure?.atMs ?? null
  }

  /** Whether a statement could still reach the server. */
  get isUsable(): boolean {
    return !this.#isOver && this.#failure === null
  }

  /** See `Wire.status`. */
  get status(): string | null {
    return this.#wire.status()
  }

  /** Of a connection that is over: whether `error` says no more than that. */
  isOwnEnd(error: unknown): boolean {
    return isCausedBy(error, this.failure) || isConnectionLoss(error)
  }

  /**
   * Sends one text; several statements in it are one round trip, and the last one's answer counts.
   * Without an answer within `withinMs` the connection is destroyed, which makes the driver reject.
   */
  send(text: string, values: string[] | undefined, withinMs: number): Promise<PgAnswer> {
    return this.#within(withinMs, () => this.#wire.query(text, values))
  }

  /** The same for a statement that begins many transactions. */
  open(statement: Preparable, values: string[], withinMs: number): Promise<PgAnswer> {
    return this.#within(withinMs, () => this.#wire.open(statement, values))
  }

  /** See `Wire.ahead`. */
  ahead(statement: Preparable): Ahead | null {
    return this.#wire.ahead?.(statement) ?? null
  }

  /** Sends one statement with values of the user's, with the same bound. */
  write(statement: NamedText, values: unknown[], withinMs: number): Promise<PgAnswer> {
    return this.#within(withinMs, () => this.#wire.write(statement, values))
  }

  /**
   * Where the process keeps an AsyncLocalStorage, Node 20 and 22 pay for every promise that is made: an
   * `await` inside of an async function makes two, a `then` one.
   */
  #within(withinMs: number, send: () => Promise<PgAnswer>): Promise<PgAnswer> {
    this.#deadlines.start(this.#wait, withinMs)
    return send().then(this.#answered, this.#refused)
  }

  readonly #answered = (answer: PgAnswer): PgAnswer => {
    this.#deadlines.stop(this.#wait)
    return answer
  }

  readonly #refused = (error: unknown): never => {
    this.#deadlines.stop(this.#wait)
    throw error
  }

  /** Ends the transaction, if one is open, without effect. */
  async undo(withinMs: number): Promise<void> {
    if (!this.isUsable || this.#isUndone || !this.#wire.mayBeOpen()) return
    this.#isUndone = true
    try {
      await this.send('ROLLBACK', undefined, withinMs)
    } catch (error) {
      // The caller has a reason of its own for the rollback, and that is what it must see.
      this.#fail(error)
    }
  }

  /**
   * The same, and gives the connection back, or destroys it.
   *
   * @returns Whether the connection was still good.
   */
  async rollBack(): Promise<boolean> {
    await this.undo(ROLLBACK_MS)
    const wasAlive = this.isUsable
    this.giveBack()
    return wasAlive
  }

  giveBack(): void {
    if (!this.isUsable) return this.destroy()
    this.#isOver = true
    this.#wire.giveBack()
  }

  /** The server ends the transaction when it sees the connection gone. */
  destroy(): void {
    if (this.#isOver) return
    this.#isOver = true
    this.#wire.destroy()
  }
}

/**
 * A connection from the pool.
 *
 * @param begin See `Driver.lend`.
 * @param withinMs The pool itself may have no bound, and nobody can leave its queue: a connection
 *   that comes too late is given back at once.
 * @throws BackendUnavailableError.
 */
export function borrow<Tx>(
  driver: Driver<Tx>,
  withinMs: number,
  deadlines: Deadlines,
  begin: string | null,
): Promise<Session<Tx>> {
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
    driver.lend(begin).then(
      (wire) => {
        const session = new Session(wire, deadlines)
        if (!isWaiting) return void session.rollBack()
        deadlines.stop(wait)
        resolve(session)
      },
      (error) => {
        deadlines.stop(wait)
        reject(unavailable(error, 'no connection'))
      },
    )
  })
}
