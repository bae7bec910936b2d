/**
 * Whether everything is there that the guard needs, for a role that may not create it: what is
 * missing, each by its name, and the text for whoever may.
 *
 * It only reads catalogs. A right that a role has by membership or by PUBLIC counts as its own.
 */
import { quoteIdentifier, unavailable } from '../../clients/postgres.ts'
import { LockError } from '../../core/errors.ts'
import type { ColumnNames, TableName } from '../shared/columns.ts'
import type { Parts } from './call.ts'
import { currentRole, type TableFacts, tableFacts } from './catalog.ts'
import { columnsDdl, columnTypes, constraintName, readTable } from './columns.ts'
import {
  CLAIMED,
  ddlOf,
  FENCES,
  FENCES_CHECK,
  FENCES_COLUMNS,
  fencesTable,
  grantsOf,
  SCHEMA_VERSION,
  schemaVersionOf,
} from './schema.ts'
import { borrow } from './session.ts'

/** What `check` found. */
export interface PostgresCheck {
  /** Of the table `fences`, as its comment records it; null: there is no such table. */
  readonly schemaVersion: number | null
  /** What is missing or wrong, a sentence each. None: everything that the guard needs is there. */
  readonly problems: readonly string[]
  /**
   * Text for a role that may run it, which repairs what can be repaired without looking at your
   * data first; empty: nothing.
   */
  readonly ddl: string
}

/** Problems with their repairs, each repair once. */
class Findings {
  readonly problems: string[] = []
  readonly #repairs = new Set<string>()

  add(problem: string, ...repairs: readonly string[]): void {
    this.problems.push(problem)
    for (const repair of repairs) this.#repairs.add(repair)
  }

  get ddl(): string {
    return [...this.#repairs].join('')
  }
}

/** @throws InvalidArgumentError, BackendUnavailableError. */
export async function check<Tx>(
  parts: Parts<Tx>,
  tables: readonly string[],
): Promise<PostgresCheck> {
  const { schema, timeoutMs, columns } = parts.settings
  const named = tables.map(readTable)
  const session = await borrow(parts.driver, timeoutMs, parts.deadlines, null)
  try {
    const findings = new Findings()
    const role = await currentRole(session, timeoutMs)
    const fences = await tableFacts(session, schema, FENCES, timeoutMs)
    lookAtFences(findings, schema, role, fences)
    for (const table of named) {
      const facts = await tableFacts(session, table.schema, table.name, timeoutMs)
      lookAtTable(findings, table, columns, role, facts)
    }
    session.giveBack()
    const { problems, ddl } = findings
    return { schemaVersion: fences && schemaVersionOf(fences.comment), problems, ddl }
  } catch (error) {
    await session.rollBack()
    throw error instanceof LockError ? error : unavailable(error, 'the check failed')
  }
}

function lookAtFences(
  findings: Findings,
  schema: string,
  role: string,
  facts: TableFacts | null,
): void {
  const table = fencesTable(schema)
  const grants = grantsOf(schema, role)
  if (facts === null) {
    return findings.add(`the table ${table} is missing`, ddlOf(schema), grants)
  }
  const version = schemaVersionOf(facts.comment)
  if (version > SCHEMA_VERSION) {
    findings.add(
      `${table} has schema version ${version}, and this version of Holdfast knows ${SCHEMA_VERSION}`,
    )
  }
  lookAtColumns(findings, table, facts, FENCES_COLUMNS, [])
  const deferrable = facts.deferrable.get('resource')
  if (deferrable !== undefined) {
    // INSERT … ON CONFLICT (resource) takes every unique index on the column, and refuses with 55000
    // when one of them is checked later (PostgreSQL 15).
    findings.add(
      `${table} has a deferrable constraint "${deferrable}" on "resource", beside which no claim works`,
      `ALTER TABLE ${table} DROP CONSTRAINT ${quoteIdentifier(deferrable)};\n`,
    )
  }
  if (!facts.unique.includes('resource')) {
    findings.add(
      `${table} has no primary key on "resource"`,
      `ALTER TABLE ${table} ADD PRIMARY KEY (resource);\n`,
    )
  }
  if (!facts.checks.includes(FENCES_CHECK)) {
    findings.add(
      `${table} has no check "${FENCES_CHECK}"`,
      `ALTER TABLE ${table} ADD CONSTRAINT ${FENCES_CHECK} CHECK (token > 0 AND seq > 0) NOT VALID;\n`,
    )
  }
  if (!facts.usage) findings.add(`role "${role}" lacks USAGE on the schema of ${table}`, grants)
  const all = FENCES_COLUMNS.map(([name]) => name)
  lookAtRight(findings, role, table, facts, 'select', all, grants)
  lookAtRight(findings, role, table, facts, 'insert', all, grants)
  lookAtRight(findings, role, table, facts, 'update', CLAIMED, grants)
}

/** A table whose rows carry the fence themselves. */
function lookAtTable(
  findings: Findings,
  table: TableName,
  columns: ColumnNames,
  role: string,
  facts: TableFacts | null,
): void {
  if (facts === null) return findings.add(`the table ${table.quoted} is missing`)
  const names = Object.values(columns)
  const list = names.map(quoteIdentifier).join(', ')
  const to = quoteIdentifier(role)
  const ddl = columnsDdl(table, columns)
  const grants = `GRANT SELECT (${list}), UPDATE (${list}) ON ${table.quoted} TO ${to};\n`
  lookAtColumns(findings, table.quoted, facts, columnTypes(columns), [ddl, grants])
  const constraint = constraintName(columns)
  if (!facts.checks.includes(constraint)) {
    findings.add(`${table.quoted} has no check "${constraint}"`, ddl)
  }
  if (!facts.usage) {
    findings.add(
      `role "${role}" lacks USAGE on the schema of ${table.quoted}`,
      `GRANT USAGE ON SCHEMA ${quoteIdentifier(facts.schema)} TO ${to};\n`,
    )
  }
  lookAtRight(findings, role, table.quoted, facts, 'select', names, grants)
  lookAtRight(findings, role, table.quoted, facts, 'update', names, grants)
}

function lookAtColumns(
  findings: Findings,
  table: string,
  { columns }: TableFacts,
  wanted: readonly (readonly [name: string, type: string])[],
  repairs: readonly string[],
): void {
  for (const [name, type] of wanted) {
    const found = columns.get(name)
    if (found === undefined) findings.add(`${table} has no column "${name}" (${type})`, ...repairs)
    else if (found.type !== type) {
      findings.add(`the column "${name}" of ${table} is of type ${found.type}, not ${type}`)
    }
  }
}

function lookAtRight(
  findings: Findings,
  role: string,
  table: string,
  { columns }: TableFacts,
  right: 'select' | 'insert' | 'update',
  names: readonly string[],
  grants: string,
): void {
  const lacking = names.filter((name) => columns.get(name)?.[right] === false)
  if (lacking.length === 0) return
  const list = lacking.map(quoteIdentifier).join(', ')
  findings.add(`role "${role}" lacks ${right.toUpperCase()} on ${list} of ${table}`, grants)
}
