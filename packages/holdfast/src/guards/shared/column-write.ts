/** A write of the column form, checked before anything is sent. */
import { types } from 'node:util'
import { InvalidArgumentError } from '../../core/errors.ts'
import { checkNames } from '../../core/options.ts'
import type { ColumnNames } from './columns.ts'
import { storableText } from './text.ts'

/** Checked. */
export type ReadWrite = Readonly<{
  table: string
  where: readonly (readonly [string, unknown])[]
  set: readonly (readonly [string, unknown])[]
  op: string | null
}>

/** As a caller gives it. */
type Presented = Readonly<{
  table: unknown
  where: unknown
  set: Readonly<Record<string, unknown>>
  op?: unknown
}>

const PARTS: readonly string[] = ['table', 'where', 'set', 'op']

/** @throws InvalidArgumentError naming the part that is wrong. */
export function readWrite(write: Presented, columns: ColumnNames): ReadWrite {
  if (typeof write !== 'object' || write === null) {
    throw new InvalidArgumentError('write', write, 'an object with table, where, set and op')
  }
  checkNames(write, PARTS)
  const { table, op } = write
  if (typeof table !== 'string') throw new InvalidArgumentError('table', table, 'a text')
  const where = columnsOf('where', write.where, columns)
  const set = columnsOf('set', write.set, columns)
  for (const [column, value] of where) {
    if (!isPlain(value)) {
      const allowed = 'a text, a number, a bigint, a boolean, a valid date, bytes or null'
      throw new InvalidArgumentError(`where.${column}`, value, allowed)
    }
    if (Object.hasOwn(write.set, column)) {
      const allowed =
        'no column of where: when it changed, a repeat of the call would not find its row again'
      throw new InvalidArgumentError(`set.${column}`, write.set[column], allowed)
    }
  }
  return { table, where, set, op: op === undefined ? null : storableText('op', op) }
}

function columnsOf(part: string, row: unknown, own: ColumnNames): ReadWrite['where'] {
  const isRow = typeof row === 'object' && row !== null && !Array.isArray(row)
  const columns = isRow ? Object.entries(row) : []
  if (columns.length === 0) {
    throw new InvalidArgumentError(part, row, 'an object with at least one column')
  }
  const guarded: readonly string[] = Object.values(own)
  for (const [column, value] of columns) {
    if (guarded.includes(column)) {
      const allowed = 'a column of yours: this one is written by the guard'
      throw new InvalidArgumentError(`${part}.${column}`, value, allowed)
    }
    if (value === undefined || typeof value === 'function' || typeof value === 'symbol') {
      const allowed = 'a value that the driver can send, or null'
      throw new InvalidArgumentError(`${part}.${column}`, value, allowed)
    }
  }
  return columns
}

/** A value that stands for itself: two calls with it mean the same row. */
function isPlain(value: unknown): boolean {
  if (types.isDate(value)) return !Number.isNaN(Number(value))
  return typeof value !== 'object' || value === null || value instanceof Uint8Array
}

/** Two calls with one key mean one row; one row may have several keys, by spelling. */
export function rowKey({ table, where }: ReadWrite): string {
  return JSON.stringify([table, where], (_key, value: unknown) => {
    const hasNoJson =
      typeof value === 'bigint' || (typeof value === 'number' && !Number.isFinite(value))
    return hasNoJson ? { [typeof value]: String(value) } : value
  })
}
