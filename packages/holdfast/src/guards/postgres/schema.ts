/**
 * The guard's table as it is made, the version of its shape, and who needs which right on it.
 *
 * The version stands in the table's comment. A later version of Holdfast that changes the shape raises
 * it, so that an older one that shares the table says so instead of guessing. A table without the
 * comment has version 1: it was made before versions were recorded, or restored without comments, and
 * its columns are compared in any case.
 *
 * Rejected: a column, which every row would carry, and a table of versions, one more thing to grant.
 */
import { quoteIdentifier } from '../../clients/postgres.ts'

export const SCHEMA_VERSION = 1
export const FENCES = 'fences'

/** What the guard needs; a table may have more. */
export const FENCES_COLUMNS: readonly (readonly [name: string, type: string])[] = [
  ['resource', 'text'],
  ['token', 'bigint'],
  ['owner', 'text'],
  ['seq', 'bigint'],
  ['op', 'text'],
  ['source', 'text'],
]

/** PostgreSQL's own name for the one check of a table over several columns. */
export const FENCES_CHECK = 'fences_check'

const COMMENT = 'Holdfast fences, schema version'

export function schemaVersionOf(comment: string | null): number {
  const digits = /\bschema version (\d{1,9})\b/.exec(comment ?? '')?.[1]
  return digits === undefined ? 1 : Number(digits)
}

/** The guard's table, quoted. */
export function fencesTable(schema: string): string {
  return `${quoteIdentifier(schema)}.${FENCES}`
}

/** What `migrate` runs and `ddl` shows; each may run again. */
export function definitions(schema: string): {
  readonly schema: string
  readonly table: string
  readonly comment: string
} {
  const table = fencesTable(schema)
  return {
    schema: `CREATE SCHEMA IF NOT EXISTS ${quoteIdentifier(schema)}`,
    table: `CREATE TABLE IF NOT EXISTS ${table} (
  resource text COLLATE "C" PRIMARY KEY,
  token bigint NOT NULL,
  owner text NOT NULL,
  seq bigint NOT NULL,
  op text NOT NULL,
  source text NOT NULL,
  CONSTRAINT ${FENCES_CHECK} CHECK (token > 0 AND seq > 0)
) WITH (fillfactor = 50)`,
    comment: `COMMENT ON TABLE ${table} IS '${COMMENT} ${SCHEMA_VERSION}'`,
  }
}

/** The whole definition as one text, for whoever may create what the guard's role may not. */
export function ddlOf(schema: string): string {
  const { schema: createSchema, table, comment } = definitions(schema)
  return `${[createSchema, table, comment].join(';\n')};\n`
}

/** What a claim sets; `adopt` also sets `source`. */
export const CLAIMED: readonly string[] = ['token', 'owner', 'seq', 'op']

/** The least that the guard's role needs for everything but `adopt`. */
export function grantsOf(schema: string, role: string): string {
  const [table, to] = [fencesTable(schema), quoteIdentifier(role)]
  return `GRANT USAGE ON SCHEMA ${quoteIdentifier(schema)} TO ${to};
GRANT SELECT, INSERT ON ${table} TO ${to};
GRANT UPDATE (${CLAIMED.join(', ')}) ON ${table} TO ${to};
`
}
