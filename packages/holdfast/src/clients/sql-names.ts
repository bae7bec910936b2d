/** Names inside a statement, written alike by every SQL database here. */

/** A name of a schema, table or column, exact and quoted. */
export function quoteIdentifier(name: string): string {
  return `"${name.replaceAll('"', '""')}"`
}
