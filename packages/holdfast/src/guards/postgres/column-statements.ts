/**
 * The texts of the column form: one write of one row that draws `seq` under the row's lock.
 *
 * The same decision as the claim's (see statements.ts), on the columns of the row itself. What is
 * new:
 *
 * - `seqMax`: the write is applied only while the row has seen no more calls of this token than its
 *   sender knows of. The statement is its own transaction, so nothing on the server shows that it is
 *   still on its way: without this, a write that the network kept back for a minute would be applied
 *   over a later one of the same lease.
 * - a `where` that finds two rows writes none. The statement looks with its own snapshot, so what it
 *   found is what the update can meet.
 *
 * Rejected: finding the row by the ctid of a sub-select, which fails on two rows by itself: a row
 * that another transaction changed meanwhile is then not found at all. Asking the catalogs whether the
 * columns are unique, once, instead of looking each time (a tenth of the statement): the index can be
 * dropped, and an unqualified name can mean another table an hour later.
 */
import { createHash } from 'node:crypto'
import { quoteIdentifier } from '../../clients/postgres.ts'
import type { NamedText } from '../../clients/postgres-wire.ts'
import { adoptionText, quotedColumns } from '../shared/column-text.ts'
import type { ReadWrite } from '../shared/column-write.ts'
import type { ColumnNames } from '../shared/columns.ts'
import type { Claim } from '../shared/record.ts'
import { storableText } from '../shared/text.ts'
import { NAME_BYTES_MAX, readTable } from './columns.ts'
import { limitsExpression } from './statements.ts'

/** What the write presents before the caller's own values; `limitMs` only where it is bounded. */
export type Presented = Readonly<{
  claim: Claim
  seqMax: bigint
  limitMs: number | null
}>

/** The texts for all writes with the same columns of the same table. */
export interface Shape {
  /** Writes one row, or none: refused, or there is not exactly one that is found. */
  readonly inTransaction: NamedText
  /**
   * The same as a transaction of its own, which bounds its wait for the row's lock, and answers with
   * the row (seq) that it wrote.
   */
  readonly alone: NamedText
  /** Up to two rows: what the columns hold. */
  readonly read: NamedText
  /** For a person: what makes a row take the tokens of another source, which `adopt` does not. */
  readonly adoption: string
}

/** More shapes than any program writes by hand; past it, they are built anew. */
const SHAPES_MAX = 500

export class ColumnStatements {
  readonly #columns: ColumnNames
  readonly #shapes = new Map<string, Shape>()

  constructor(columns: ColumnNames) {
    this.#columns = columns
  }

  /** @throws InvalidArgumentError for a name that PostgreSQL cannot have. */
  shapeOf(write: ReadWrite): Shape {
    const where = write.where.map(([column, value]) => [column, value === null])
    const key = JSON.stringify([write.table, where, write.set.map(([column]) => column)])
    const known = this.#shapes.get(key)
    if (known !== undefined) return known
    if (this.#shapes.size >= SHAPES_MAX) this.#shapes.clear()
    const shape = shapeOf(write, this.#columns)
    this.#shapes.set(key, shape)
    return shape
  }
}

export function writeValues(write: ReadWrite, presented: Presented): unknown[] {
  const { claim, seqMax, limitMs } = presented
  const { token, owner, op, source } = claim
  const found = write.where.filter(([, value]) => value !== null)
  return [
    ...[token, owner, op, source, seqMax.toString()],
    ...(limitMs === null ? [] : [String(limitMs)]),
    ...[...found, ...write.set].map(([, value]) => value),
  ]
}

export function readValues(write: ReadWrite): unknown[] {
  return write.where.filter(([, value]) => value !== null).map(([, value]) => value)
}

/** Token, owner, op, source, seqMax; then, where it is bounded, the limit. */
const PRESENTED = 5

function shapeOf(write: ReadWrite, columns: ColumnNames): Shape {
  const table = readTable(write.table).quoted
  for (const [column] of [...write.where, ...write.set]) {
    storableText('column', column, NAME_BYTES_MAX)
  }
  const bounds = `(SELECT ${limitsExpression(`$${PRESENTED + 1}`, ['lock_timeout'])}) IS NOT NULL`
  const c = quotedColumns(columns)
  const seq = `\n    RETURNING CAST(f.${c.seq} AS text) AS seq`
  return {
    inTransaction: named(writeText(table, write, columns, PRESENTED, [], '')),
    alone: named(writeText(table, write, columns, PRESENTED + 1, [bounds], seq)),
    read: named(`
      SELECT CAST(f.${c.fence} AS text) AS token, f.${c.owner} AS owner,
        CAST(f.${c.seq} AS text) AS seq, f.${c.op} AS op, f.${c.source} AS source
      FROM ${table} AS f
      WHERE ${found('f', write, 0)}
      LIMIT 2`),
    adoption: `run ${adoptionText(table, write, c)}`,
  }
}

function writeText(
  table: string,
  write: ReadWrite,
  columns: ColumnNames,
  before: number,
  conditions: readonly string[],
  returning: string,
): string {
  const c = quotedColumns(columns)
  const [token, owner, op, source, seqMax] = [
    'CAST($1 AS bigint)',
    ...['$2', '$3', '$4'].map((parameter) => `CAST(${parameter} AS text)`),
    'CAST($5 AS bigint)',
  ]
  const setFrom = before + readValues(write).length
  const set = write.set.map(
    ([column], index) => `${quoteIdentifier(column)} = $${setFrom + index + 1}`,
  )
  const one = `NOT EXISTS (SELECT FROM ${table} AS m WHERE ${found('m', write, before)} OFFSET 1)`
  return `
    UPDATE ${table} AS f
    SET ${set.join(', ')},
      ${c.fence} = ${token}, ${c.owner} = ${owner}, ${c.op} = ${op}, ${c.source} = ${source},
      ${c.seq} = CASE WHEN f.${c.fence} = ${token} THEN f.${c.seq} + 1 ELSE 1 END
    WHERE ${[found('f', write, before), one, ...conditions].join('\n      AND ')}
      AND (f.${c.fence} IS NULL OR (f.${c.source} = ${source}
        AND (f.${c.fence} < ${token} OR (f.${c.fence} = ${token} AND f.${c.owner} = ${owner}
          AND f.${c.op} <> ${op} AND f.${c.seq} <= ${seqMax}))))${returning}`
}

/** The caller's conditions; `= NULL` would find nothing. */
function found(alias: string, { where }: ReadWrite, before: number): string {
  let parameter = before
  const conditions = where.map(([column, value]) => {
    const name = `${alias}.${quoteIdentifier(column)}`
    if (value === null) return `${name} IS NULL`
    parameter += 1
    return `${name} = $${parameter}`
  })
  return conditions.join(' AND ')
}

function named(text: string): NamedText {
  const digest = createHash('sha256').update(text).digest('hex').slice(0, 16)
  return { name: `holdfast_write_${digest}`, text }
}
