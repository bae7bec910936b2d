/**
 * The texts of the column form: one write of one row that draws `seq` under the file's write lock.
 *
 * The same decision as the claim's (see ./claiming.ts), on the columns of the row itself. A `where` that
 * finds two rows writes none. Nothing of it can arrive late, as it can over a network: there is no
 * count of the sender's here.
 *
 * Every name stands behind its table's, because SQLite may take a name in double quotes that it does
 * not know for a text. Values stand in the order of their question marks: numbered ones are bound by
 * name in one driver and by place in the other.
 */
import { quoteIdentifier } from '../../clients/sql-names.ts'
import { InvalidArgumentError } from '../../core/errors.ts'
import { adoptionText, quotedColumns } from '../shared/column-text.ts'
import type { ReadWrite } from '../shared/column-write.ts'
import type { ColumnNames } from '../shared/columns.ts'
import type { Claim } from '../shared/record.ts'
import { storableText } from '../shared/text.ts'
import { readTable } from './columns.ts'
import { NAME_BYTES_MAX } from './options.ts'

export type Statement = Readonly<{ text: string; values: readonly unknown[] }>

export interface ColumnStatements {
  /** Writes one row, or none: refused, or there is not exactly one that is found. */
  readonly write: Statement
  /** Up to two rows: what the columns hold. */
  readonly read: Statement
  /** For a person: what makes a row take the tokens of another source, which `adopt` does not. */
  readonly adoption: string
}

/** @throws InvalidArgumentError for a name or a value that cannot be meant. */
export function columnStatements(
  write: ReadWrite,
  claim: Claim,
  columns: ColumnNames,
): ColumnStatements {
  const table = readTable(write.table).quoted
  for (const [column] of [...write.where, ...write.set]) {
    storableText('column', column, NAME_BYTES_MAX)
  }
  for (const part of ['where', 'set'] as const) checkValues(part, write[part])
  const c = quotedColumns(columns)
  return {
    write: writeStatement(table, write, claim, c),
    read: readStatement(table, write, c),
    adoption: `run ${adoptionText(table, write, c)}`,
  }
}

/** node:sqlite takes an object that comes first for named parameters, and binds all others one off. */
function checkValues(part: 'where' | 'set', columns: ReadWrite['set']): void {
  for (const [column, value] of columns) {
    const isPlain = value === null || ['string', 'number', 'bigint'].includes(typeof value)
    if (isPlain || value instanceof Uint8Array) continue
    const allowed = 'what SQLite can keep: a text, a number, a bigint, bytes (Uint8Array) or null'
    throw new InvalidArgumentError(`${part}.${column}`, value, allowed)
  }
}

/** Writes a question mark, and keeps what it stands for. */
class Values {
  readonly list: unknown[] = []

  readonly put = (value: unknown): string => {
    this.list.push(value)
    return '?'
  }

  /** The caller's conditions; `= NULL` would find nothing. */
  find(alias: string, { where }: ReadWrite): string {
    const conditions = where.map(([column, value]) => {
      const name = `${alias}.${quoteIdentifier(column)}`
      return value === null ? `${name} IS NULL` : `${name} = ${this.put(value)}`
    })
    return conditions.join(' AND ')
  }
}

function writeStatement(
  table: string,
  write: ReadWrite,
  { token, owner, op, source }: Claim,
  c: ColumnNames,
): Statement {
  const values = new Values()
  const { put } = values
  const presented = (): string => `CAST(${put(token)} AS INTEGER)`
  const set = write.set.map(([column, value]) => `${quoteIdentifier(column)} = ${put(value)}`)
  const text = `
    UPDATE ${table} AS f
    SET ${set.join(', ')},
      ${c.fence} = ${presented()}, ${c.owner} = ${put(owner)}, ${c.op} = ${put(op)},
      ${c.source} = ${put(source)},
      ${c.seq} = CASE WHEN f.${c.fence} = ${presented()} THEN f.${c.seq} + 1 ELSE 1 END
    WHERE ${values.find('f', write)}
      AND (SELECT count(*) FROM
        (SELECT 1 FROM ${table} AS m WHERE ${values.find('m', write)} LIMIT 2)) = 1
      AND (f.${c.fence} IS NULL OR (f.${c.source} = ${put(source)}
        AND (f.${c.fence} < ${presented()} OR (f.${c.fence} = ${presented()}
          AND f.${c.owner} = ${put(owner)} AND f.${c.op} <> ${put(op)}))))`
  return { text, values: values.list }
}

function readStatement(table: string, write: ReadWrite, c: ColumnNames): Statement {
  const values = new Values()
  const text = `
    SELECT CAST(f.${c.fence} AS TEXT) AS token, f.${c.owner} AS owner,
      CAST(f.${c.seq} AS TEXT) AS seq, f.${c.op} AS op, f.${c.source} AS source
    FROM ${table} AS f
    WHERE ${values.find('f', write)}
    LIMIT 2`
  return { text, values: values.list }
}
