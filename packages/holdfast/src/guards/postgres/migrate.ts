/** Creates the guard's table, once, however many processes start at the same time. */
import { sqlState, unavailable } from '../../clients/postgres.ts'
import { BackendUnavailableError, GuardBusyError, InvalidArgumentError } from '../../core/errors.ts'
import type { Parts } from './call.ts'
import { borrow, type Session } from './session.ts'
import { beginText, definitions, limitsText } from './statements.ts'

/** What the guard needs; a table may have more. */
const COLUMNS: Readonly<Record<string, string>> = {
  resource: 'text',
  token: 'bigint',
  owner: 'text',
  seq: 'bigint',
  op: 'text',
  source: 'text',
}

/** "hold", "fast" in ASCII: a key for advisory locks that nobody else is likely to use. */
const LOCK_KEY = '1752132708, 1717662580'
/** Somebody who creates the same table without our lock; the second look finds it. */
const COLLISIONS = ['23505', '42P06', '42P07']
const TRIES_MAX = 3

/** The whole definition as one text, for whoever may create what the guard's role may not. */
export function ddlOf(schema: string): string {
  return `${definitions(schema).join(';\n')};\n`
}

export async function migrate<Tx>(parts: Parts<Tx>): Promise<void> {
  for (let tries = 1; ; tries++) {
    try {
      return await migrateOnce(parts)
    } catch (error) {
      if (tries === TRIES_MAX || !COLLISIONS.includes(sqlState(error) ?? '')) {
        throw explain(parts, error)
      }
    }
  }
}

async function migrateOnce<Tx>(parts: Parts<Tx>): Promise<void> {
  const { timeoutMs, schema } = parts.settings
  const session = await borrow(parts.driver, timeoutMs, parts.deadlines)
  const answerMs = 2 * timeoutMs
  try {
    // A role that may not create anything can still find that all is there.
    if (await isComplete(session, schema, answerMs)) return session.giveBack()
    await session.send(
      `${beginText('read committed')}; ${limitsText(timeoutMs)}`,
      undefined,
      answerMs,
    )
    await session.send(`SELECT pg_advisory_xact_lock(${LOCK_KEY})`, undefined, answerMs)
    const [createSchema = '', createTable = ''] = definitions(schema)
    // CREATE SCHEMA IF NOT EXISTS asks for the right to create before it looks whether it must.
    const text = 'SELECT FROM pg_namespace WHERE nspname = $1'
    const { rows } = await session.send(text, [schema], answerMs)
    if (rows.length === 0) await session.send(createSchema, undefined, answerMs)
    await session.send(createTable, undefined, answerMs)
    await session.send('COMMIT', undefined, answerMs)
    session.giveBack()
  } catch (error) {
    await session.rollBack()
    throw error
  }
}

/** @throws InvalidArgumentError when there is a table `fences` of another shape. */
async function isComplete(
  session: Session<unknown>,
  schema: string,
  answerMs: number,
): Promise<boolean> {
  const { rows } = await session.send(
    `SELECT a.attname AS name, format_type(a.atttypid, a.atttypmod) AS type
     FROM pg_attribute a
     JOIN pg_class c ON c.oid = a.attrelid
     JOIN pg_namespace n ON n.oid = c.relnamespace
     WHERE n.nspname = $1 AND c.relname = 'fences' AND a.attnum > 0 AND NOT a.attisdropped`,
    [schema],
    answerMs,
  )
  if (rows.length === 0) return false
  const found = new Map(rows.map(({ name, type }) => [String(name), String(type)]))
  for (const [name, type] of Object.entries(COLUMNS)) {
    if (found.get(name) === type) continue
    const has = found.has(name) ? `of type ${found.get(name)}` : 'missing'
    const allowed = `one whose table "fences" is the guard's: there column "${name}" is ${has}, not ${type}`
    throw new InvalidArgumentError('schema', schema, allowed)
  }
  return true
}

function explain<Tx>({ settings }: Parts<Tx>, error: unknown): unknown {
  const { schema } = settings
  const state = sqlState(error)
  if (state === '42501') {
    const role = 'the role of this pool may not create the guard’s table'
    const advice =
      `PostgreSQL: ${role}; run this as one that may, and grant it USAGE on the schema and SELECT, ` +
      `INSERT and UPDATE on the table:\n${ddlOf(schema)}`
    return new BackendUnavailableError('no-permission', advice, { cause: error })
  }
  if (state === '55P03' || state === '57014') {
    return new GuardBusyError(`${schema}.fences`, 'another migration has not ended', {
      cause: error,
    })
  }
  const isOurs = error instanceof InvalidArgumentError || error instanceof BackendUnavailableError
  return isOurs ? error : unavailable(error, 'the migration failed')
}
