/**
 * How many prizes are left, and who was given one: what the pods read and write, and the store's
 * own account for the checker.
 *
 * Both change in one statement, so the book of winners and the number that is left cannot differ by
 * an accident of ours. That the number is computed from one that was read before is the race.
 */
import { type Database, type Dialect, NUMBERED, type Queryable } from '../ground/database.ts'

const tablesOf = (dialect: Dialect): string => `
  CREATE TABLE campaigns (id text PRIMARY KEY, remaining integer NOT NULL);
  CREATE TABLE winners (
    id ${NUMBERED[dialect]},
    campaign text NOT NULL,
    pod text NOT NULL,
    section integer NOT NULL,
    basis integer NOT NULL,
    token bigint
  );
  ${dialect === 'sqlite' ? TAKE_WITH_WINNER : ''}
`

/** SQLite cannot change two tables in one statement; what a trigger does belongs to the statement. */
const TAKE_WITH_WINNER = `
  CREATE TRIGGER take_with_winner AFTER INSERT ON winners BEGIN
    UPDATE campaigns SET remaining = NEW.basis - 1 WHERE id = NEW.campaign;
  END;
`

const ENTER: Readonly<Record<Dialect, string>> = {
  postgres: `
    WITH taken AS (UPDATE campaigns SET remaining = $4 - 1 WHERE id = $1)
    INSERT INTO winners (campaign, pod, section, basis, token) VALUES ($1, $2, $3, $4, $5)`,
  sqlite: 'INSERT INTO winners (campaign, pod, section, basis, token) VALUES ($1, $2, $3, $4, $5)',
}

export async function openBook(db: Database, campaign: string, prizes: number): Promise<void> {
  await db.createOnce('campaigns', tablesOf(db.dialect))
  await db.query('INSERT INTO campaigns (id, remaining) VALUES ($1, $2)', [campaign, prizes])
}

export async function remainingIn(db: Queryable, campaign: string): Promise<number> {
  const { rows } = await db.query<{ remaining: number }>(
    'SELECT remaining FROM campaigns WHERE id = $1',
    [campaign],
  )
  const [row] = rows
  if (row === undefined) throw new Error(`there is no campaign ${campaign}`)
  return row.remaining
}

export interface Winner {
  readonly pod: string
  /** The pod's n-th try; with the pod's name it is the key to its entry in the history. */
  readonly section: number
  /** How many were left when the pod looked. */
  readonly basis: number
  /** Null where there is no lock. */
  readonly token: string | null
}

export async function enterWinner(
  db: Queryable,
  dialect: Dialect,
  campaign: string,
  winner: Winner,
): Promise<void> {
  const { pod, section, basis, token } = winner
  await db.query(ENTER[dialect], [campaign, pod, section, basis, token])
}

/** A campaign when it is over, by the store's own word. */
export interface Book {
  readonly remaining: number
  /** In the order in which they were entered. */
  readonly winners: readonly Winner[]
}

export async function readBook(db: Queryable, campaign: string): Promise<Book> {
  const { rows } = await db.query<Winner>(
    `SELECT pod, section, basis, CAST(token AS text) AS token
     FROM winners WHERE campaign = $1 ORDER BY id`,
    [campaign],
  )
  return { remaining: await remainingIn(db, campaign), winners: rows }
}
