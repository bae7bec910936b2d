/** Texts of the column form that every SQL database writes alike. */
import { quoteIdentifier } from '../../clients/sql-names.ts'
import type { ReadWrite } from './column-write.ts'
import type { ColumnNames } from './columns.ts'

/** The values are left out: it stands in a message, and must not run by mistake on all rows. */
export function adoptionText(table: string, write: ReadWrite, c: ColumnNames): string {
  const set = Object.values(c).map((column) => `${column} = NULL`)
  const where = write.where.map(([column]) => `${quoteIdentifier(column)} = …`)
  return `UPDATE ${table} SET ${set.join(', ')} WHERE ${where.join(' AND ')}`
}

export function quotedColumns(columns: ColumnNames): ColumnNames {
  const { fence, seq, owner, op, source } = columns
  return {
    fence: quoteIdentifier(fence),
    seq: quoteIdentifier(seq),
    owner: quoteIdentifier(owner),
    op: quoteIdentifier(op),
    source: quoteIdentifier(source),
  }
}
