/** The names of the column form that come from the caller: its five columns, and tables. */
import { quoteIdentifier } from '../../clients/sql-names.ts'
import { InvalidArgumentError } from '../../core/errors.ts'
import { checkNames } from '../../core/options.ts'
import { storableText } from './text.ts'

export type ColumnNames = Readonly<Record<'fence' | 'seq' | 'owner' | 'op' | 'source', string>>

const DEFAULTS: ColumnNames = {
  fence: 'fence',
  seq: 'fence_seq',
  owner: 'fence_owner',
  op: 'fence_op',
  source: 'fence_source',
}

/**
 * @param bytesMax The longest name that the database keeps.
 * @throws InvalidArgumentError naming what is wrong.
 */
export function columnNames(option: unknown, bytesMax: number): ColumnNames {
  const own = (option ?? {}) as Readonly<Record<string, unknown>>
  const known = Object.keys(DEFAULTS)
  if (typeof own !== 'object' || Array.isArray(own)) {
    throw new InvalidArgumentError('columns', option, `an object with ${known.join(', ')}`)
  }
  checkNames(own, known, 'columns.')
  const name = (key: keyof ColumnNames): string =>
    storableText(`columns.${key}`, own[key] ?? DEFAULTS[key], bytesMax)
  const names: ColumnNames = {
    fence: name('fence'),
    seq: name('seq'),
    owner: name('owner'),
    op: name('op'),
    source: name('source'),
  }
  if (new Set(Object.values(names)).size < known.length) {
    throw new InvalidArgumentError('columns', names, 'five different names')
  }
  return names
}

/** One part stands for itself or in double quotes, as in SQL; a dot outside of them separates. */
const TABLE = /^(?:(?<schema>"(?:[^"]|"")+"|[^".]+)\.)?(?<name>"(?:[^"]|"")+"|[^".]+)$/

export type TableName = Readonly<{ schema: string | null; name: string; quoted: string }>

/**
 * @param bytesMax The longest name that the database keeps.
 * @throws InvalidArgumentError.
 */
export function tableName(table: unknown, bytesMax: number): TableName {
  const { schema, name } = TABLE.exec(typeof table === 'string' ? table : '')?.groups ?? {}
  if (name === undefined) {
    const allowed =
      'the name of a table, "table" or "schema.table", exactly as it is written in the database; ' +
      'a part with a dot or a quote in it stands in double quotes, as in SQL'
    throw new InvalidArgumentError('table', table, allowed)
  }
  const parts = [schema, name].flatMap((part) =>
    part === undefined ? [] : [storableText('table', unquoted(part), bytesMax)],
  )
  return {
    schema: parts.length === 2 ? (parts[0] as string) : null,
    name: parts.at(-1) as string,
    quoted: parts.map(quoteIdentifier).join('.'),
  }
}

function unquoted(part: string): string {
  return part.startsWith('"') ? part.slice(1, -1).replaceAll('""', '"') : part
}
