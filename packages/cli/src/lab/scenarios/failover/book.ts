/** What leaders write: a row for each write, numbered in the order in which the store took them. */
import type { Fenced } from 'holdfast'
import { NUMBERED } from '../ground/database.ts'
import type { DataStores } from '../ground/ground.ts'

export interface Row {
  readonly term: string
  readonly writer: string
}

export interface Book {
  /** Rejects as the guard does, where there is one. */
  write(fenced: Fenced, writer: string): Promise<void>
  /** In the order in which they were accepted. */
  rows(electionName: string): Promise<readonly Row[]>
}

const INSERT = 'INSERT INTO leader_writes (election, term, writer) VALUES ($1, $2, $3)'

/** @param isBare Past the guard. */
export function bookIn({ db, guard }: DataStores, isBare: boolean): Book {
  return {
    async write(fenced, writer) {
      const values = [fenced.lockName, `${fenced.fencingToken}`, writer]
      if (isBare) await db.query(INSERT, values)
      else await guard.transaction(fenced, (tx) => tx.query(INSERT, values))
    },
    async rows(electionName) {
      const select = 'SELECT term, writer FROM leader_writes WHERE election = $1 ORDER BY id'
      return (await db.query<Row>(select, [electionName])).rows
    },
  }
}

export async function prepareBook({ db, guard }: DataStores): Promise<void> {
  await guard.migrate()
  await db.createOnce(
    'leader_writes',
    `CREATE TABLE leader_writes (
      id ${NUMBERED[db.dialect]}, election text NOT NULL, term text NOT NULL, writer text NOT NULL)`,
  )
}
