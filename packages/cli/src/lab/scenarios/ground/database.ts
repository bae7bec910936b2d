/** The store of the data as the scenarios use it: one kind of call, for two kinds of SQL. */

export interface Answer<Row> {
  readonly rows: readonly Row[]
  /** How many rows a statement wrote, or read. */
  readonly rowCount: number
}

/** What the store itself does and a transaction on it. */
export interface Queryable {
  /** @param text One statement, whose parameters are `$1` to `$n`. */
  query<Row = unknown>(text: string, values?: readonly unknown[]): Promise<Answer<Row>>
}

export type Dialect = 'postgres' | 'sqlite'

export interface Database extends Queryable {
  readonly dialect: Dialect
  /**
   * Makes tables where the first of them is not there yet. Several scenarios of one run, and arms at
   * one time, share them.
   */
  createOnce(table: string, ddl: string): Promise<void>
}

/** A column that numbers the rows in the order in which they come. */
export const NUMBERED: Readonly<Record<Dialect, string>> = {
  postgres: 'bigserial PRIMARY KEY',
  sqlite: 'integer PRIMARY KEY AUTOINCREMENT',
}
