/** Why a write of the column form was not applied, as the columns of its row tell. */
import { InvalidArgumentError } from '../../core/errors.ts'
import type { Call } from './call.ts'
import type { ReadWrite } from './column-write.ts'
import { readRow, repeatOrRefusal } from './record.ts'

/** Not applied: the row as it is then, or that it is `missing`, or shows this very call. */
export type Refused = Readonly<{ kind: 'missing' | 'repeat' | 'may-now'; seq: bigint }>
type Writing = Readonly<{ call: Pick<Call, 'claim' | 'fenced'>; write: ReadWrite }>
/** The five columns, as a driver gives them. */
type Row = Readonly<Record<string, unknown>>

/**
 * Why nothing was written.
 *
 * @param adoption What accepts another source.
 * @throws StaleTokenError, TokenConflictError, TokenSourceError, InvalidArgumentError.
 */
export function refusalOf(
  { call, write }: Writing,
  adoption: string,
  rows: readonly Row[],
): Refused {
  const [found, another] = rows
  if (found === undefined) return { kind: 'missing', seq: 0n }
  if (another !== undefined) {
    const where = Object.fromEntries(write.where)
    const allowed = 'columns that find one row: a primary key, or another unique one'
    throw new InvalidArgumentError('where', where, allowed)
  }
  const empty = Object.values(found).filter((value) => value === null).length
  if (empty === Object.keys(found).length) return { kind: 'may-now', seq: 0n }
  const row = empty === 0 ? readRow(found) : null
  if (row === null) {
    const allowed =
      'one in which the columns of the guard are all null or all set: guard.ddlFor(table) has the check'
    throw new InvalidArgumentError('table', write.table, allowed)
  }
  const seq = repeatOrRefusal(row, call.claim, call.fenced, adoption)
  if (seq !== null) return { kind: 'repeat', seq }
  return { kind: 'may-now', seq: row.token === call.fenced.fencingToken ? row.seq : 0n }
}
