/** Creates the guard's table, once, however many processes start at the same time. */
import { quoteIdentifier, sqlState, unavailable } from '../../clients/postgres.ts'
import { BackendUnavailableError, GuardBusyError, InvalidArgumentError } from '../../core/errors.ts'
import type { Parts } from './call.ts'
import { currentRole, tableFacts } from './catalog.ts'
import {
  ddlOf,
  definitions,
  FENCES,
  FENCES_COLUMNS,
  fencesTable,
  grantsOf,
  SCHEMA_VERSION,
  schemaVersionOf,
} from './schema.ts'
import { borrow, type Session } from './session.ts'
import { beginText, limitsText } from './statements.ts'

/** "hold", "fast" in ASCII: a key for advisory locks that nobody else is likely to use. */
const LOCK_KEY = '1752132708, 1717662580'
/** Somebody who creates the same table without our lock; the second look finds it. */
const COLLISIONS = ['23505', '42P06', '42P07']
const TRIES_MAX = 3
const NO_RIGHT = '42501'

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
  // A role that may not create anything can still find that all is there.
  const role = await roleIfMissing(parts)
  if (role === null) return
  const { driver, deadlines } = parts
  const { timeoutMs, schema } = parts.settings
  const session = await borrow(driver, timeoutMs, deadlines, beginText('read committed'))
  const answerMs = 2 * timeoutMs
  try {
    await session.send(limitsText(timeoutMs), undefined, answerMs)
    await session.send(`SELECT pg_advisory_xact_lock(${LOCK_KEY})`, undefined, answerMs)
    // Whoever had the lock before has made it.
    if (!(await isComplete(session, schema, answerMs)))
      await create(session, schema, role, answerMs)
    await session.send('COMMIT', undefined, answerMs)
    session.giveBack()
  } catch (error) {
    await session.rollBack()
    throw error
  }
}

async function create(
  session: Session<unknown>,
  schema: string,
  role: string,
  answerMs: number,
): Promise<void> {
  const texts = definitions(schema)
  const make = async (what: string, text: string): Promise<void> => {
    try {
      await session.send(text, undefined, answerMs)
    } catch (error) {
      throw sqlState(error) === NO_RIGHT ? mayNotCreate(what, schema, role, error) : error
    }
  }
  // CREATE SCHEMA IF NOT EXISTS asks for the right to create before it looks whether it must.
  const text = 'SELECT FROM pg_namespace WHERE nspname = $1'
  const { rows } = await session.send(text, [schema], answerMs)
  if (rows.length === 0) await make(`schema ${quoteIdentifier(schema)}`, texts.schema)
  const table = `table ${fencesTable(schema)}`
  await make(table, texts.table)
  await make(table, texts.comment)
}

function mayNotCreate(
  what: string,
  schema: string,
  role: string,
  cause: unknown,
): BackendUnavailableError {
  // The last line is a comment, with whatever the error puts behind it: all of it can be pasted.
  const advice = `PostgreSQL: role "${role}" may not create the ${what}, which is missing; run this as one that may:
${ddlOf(schema)}${grantsOf(schema, role)}-- guard.check() then says whether anything is left`
  return new BackendUnavailableError('no-permission', advice, { cause })
}

/** The role that would have to create what is missing; null: nothing is. */
async function roleIfMissing<Tx>(parts: Parts<Tx>): Promise<string | null> {
  const { driver, settings, deadlines } = parts
  const answerMs = 2 * settings.timeoutMs
  const session = await borrow(driver, settings.timeoutMs, deadlines, null)
  try {
    const isThere = await isComplete(session, settings.schema, answerMs)
    return isThere ? null : await currentRole(session, answerMs)
  } finally {
    await session.rollBack()
  }
}

/** @throws InvalidArgumentError when there is a table `fences` that this version cannot use. */
async function isComplete(
  session: Session<unknown>,
  schema: string,
  answerMs: number,
): Promise<boolean> {
  const facts = await tableFacts(session, schema, FENCES, answerMs)
  if (facts === null) return false
  const refuse = (what: string): never => {
    const allowed = `one whose table "${FENCES}" is the guard's: there ${what}`
    throw new InvalidArgumentError('schema', schema, allowed)
  }
  const version = schemaVersionOf(facts.comment)
  if (version > SCHEMA_VERSION) {
    refuse(`it has schema version ${version}, and this version of Holdfast knows ${SCHEMA_VERSION}`)
  }
  for (const [name, type] of FENCES_COLUMNS) {
    const found = facts.columns.get(name)
    if (found?.type === type) continue
    const has = found === undefined ? 'missing' : `of type ${found.type}`
    refuse(`column "${name}" is ${has}, not ${type}`)
  }
  return true
}

function explain<Tx>({ settings }: Parts<Tx>, error: unknown): unknown {
  const state = sqlState(error)
  if (state === '55P03' || state === '57014') {
    const what = 'another migration has not ended'
    return new GuardBusyError(`${settings.schema}.${FENCES}`, what, { cause: error })
  }
  const isOurs = error instanceof InvalidArgumentError || error instanceof BackendUnavailableError
  return isOurs ? error : unavailable(error, 'the migration failed')
}
