/**
 * What the guard needs of a PostgreSQL driver: a connection that is its own for a while.
 *
 * Each driver has a file of its own that makes one of these out of what the user passes; nothing
 * above it knows which driver it is.
 */

/** What a statement answered; `command` is its tag, for example `COMMIT`. */
export interface PgAnswer {
  /** By column name, each a value that `String()` turns into the server's text. */
  readonly rows: readonly Readonly<Record<string, unknown>>[]
  readonly command?: string | undefined
  /** Of a statement that writes: how many rows it wrote. */
  readonly rowCount?: number | null | undefined
}

/** Sends one statement with arguments and waits for its answer. */
export type Ask = (text: string, values: string[]) => Promise<PgAnswer>

/** A statement that a session may keep. */
export interface NamedText {
  /** Says which text it is: no two texts share a name. */
  readonly name: string
  readonly text: string
}

/** A statement that a session may keep prepared by SQL. */
export interface Preparable extends NamedText {
  /** Of its arguments, for example `(text, bigint)`. */
  readonly types: string
}

/**
 * Sends one statement with values of the user's, which the driver converts by its own rules.
 */
export type Write = (statement: NamedText, values: unknown[]) => Promise<PgAnswer>

/** The user's statements while the claim of their transaction is on its way. */
export interface Ahead {
  /** Whether the server carried out one that went out before the verdict. */
  readonly hasCarriedOut: boolean
  /** The claim is good: answers are handed on, what waited is sent, in order, and nothing is held any more. */
  letGo(): void
  /** From now on nothing goes out before the verdict: the transaction is about to end. */
  stop(): void
  /** It is not: whatever waits, or comes until `close`, is rejected with `error` and never sent. */
  refuse(error: unknown): void
  /** The user's client is as it was. */
  close(): void
}

/** A connection that was lent. It ends with `giveBack` or `destroy`, once. */
export interface Wire<Tx> {
  /** What the user's function works with, in this connection's transaction. */
  readonly tx: Tx
  /** Several statements without arguments are one round trip; the last one's answer counts. */
  query(text: string, values?: string[]): Promise<PgAnswer>
  readonly write: Write
  /** As `query`, for a statement that begins many transactions. */
  open(statement: Preparable, values: string[]): Promise<PgAnswer>
  /**
   * From now on `tx` holds the user's statements back; `open` with the same statement comes next. Null:
   * this connection does not keep the statement, or does not keep it yet.
   *
   * @throws InvalidArgumentError when the connection is not pipelined.
   */
  ahead?(statement: Preparable): Ahead | null
  /**
   * Of the transaction, as of the last answer that the driver has read to its end: I none, T in one, E
   * in a failed one; null: the driver does not tell. After an error it may be older than the error.
   */
  status(): string | null
  /** Whether a transaction may be open, so that a ROLLBACK is due. */
  mayBeOpen(): boolean
  /** Calls `tell` with whatever ends the connection while no statement is on its way. */
  listen(tell: (error: unknown) => void): void
  giveBack(): void
  /** The server ends the transaction when it sees the connection gone. */
  destroy(): void
}

/** A user's pool, whichever driver it comes from. */
export interface Driver<Tx> {
  /** The user's own object: guards on one pool know each other by it. */
  readonly pool: object
  /**
   * @param begin Goes out before the first statement, in one round trip with it as a rule. Null: there
   *   is no transaction.
   */
  lend(begin: string | null): Promise<Wire<Tx>>
  /**
   * For statements inside a transaction that the user began.
   *
   * @throws InvalidArgumentError when `tx` is none.
   */
  inside(tx: Tx): Ask
  /** The same for statements with values of the user's. */
  writeInside(tx: Tx): Write
}
