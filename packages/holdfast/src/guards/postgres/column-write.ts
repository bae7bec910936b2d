/** What the caller wants written by the column form. */

/** Columns with their values, which go to your driver as they are. */
export type PostgresRow = Readonly<Record<string, unknown>>

/** One write of one row. */
export interface PostgresWrite {
  /**
   * `table` or `schema.table`, each part exactly as it is written in the database; a part that
   * contains a dot or a quote stands in double quotes, as in SQL.
   */
  readonly table: string
  /**
   * What finds the row: columns of a primary key or another unique one, with texts, numbers,
   * bigints, booleans, dates, bytes or null. None of them may be in `set`.
   */
  readonly where: PostgresRow
  /** What is written. Not the guard's own columns; `undefined` is refused, null is a value. */
  readonly set: PostgresRow
  /**
   * Names this call, 1 to 1,024 bytes: a repeat with the same name is not applied again. Default: a
   * random name, so that each call is another.
   */
  readonly op?: string | undefined
}
