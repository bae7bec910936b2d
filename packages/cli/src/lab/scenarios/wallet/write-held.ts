/** One write of whoever holds a lock, or held it: with nothing but the token that was granted. */
import { type Fenced, StaleTokenError, TokenConflictError } from 'holdfast'
import { type PostgresGuard, postgresGuard } from 'holdfast/guards/postgres'
import pg from 'pg'
import type { Addresses } from '../../scenario.ts'
import { monotonicUs } from '../../time.ts'
import type { Job, Program } from '../../trial.ts'

/** A token as it can be handed from process to process. */
export interface Held {
  readonly lockName: string
  readonly owner: string
  readonly token: string
  readonly source: string
}

export interface WriteInput {
  readonly postgres: Addresses['postgres']
  readonly held: Held
  readonly balance: number
  /** Past the guard: nobody looks at the token. */
  readonly isBare?: true
}

export const write: Program = async (job) => {
  const { postgres, held, balance, isBare } = job.input as WriteInput
  const writer = new HeldWriter(postgres, job.role)
  try {
    await writer.write(job, { held, balance, round: job.round }, isBare)
  } finally {
    await writer.close()
  }
}

/** Rounds wait for the disk, so two at a time are faster; of one lane the server allows few. */
const CONNECTIONS_MAX = 2

/** For a program that writes in many rounds. */
export class HeldWriter {
  readonly #pool: pg.Pool
  readonly #guard: PostgresGuard<pg.PoolClient>

  constructor(postgres: Addresses['postgres'], role: string) {
    this.#pool = new pg.Pool({ ...postgres, max: CONNECTIONS_MAX, application_name: role })
    // A connection that the server ends while it lies in the pool; the pool opens another one.
    this.#pool.on('error', () => {})
    this.#guard = postgresGuard(this.#pool)
  }

  /** @param isBare Past the guard. */
  async write(
    job: Job,
    { held, balance, round }: { held: Held; balance: number; round: number },
    isBare?: true,
  ): Promise<void> {
    const { lockName, owner, source, token } = held
    const fenced: Fenced = { lockName, owner, source, fencingToken: BigInt(token) }
    const writeBy = async (client: Pick<pg.ClientBase, 'query'> | pg.Pool): Promise<void> => {
      await client.query('UPDATE wallets SET balance = $2 WHERE id = $1', [lockName, balance])
    }
    const calledAtUs = monotonicUs()
    const refused = await refusalOf(() =>
      isBare ? writeBy(this.#pool) : this.#guard.transaction(fenced, writeBy),
    )
    const detail = refused === null ? {} : { detail: refused }
    const answer = refused === null ? 'applied' : 'refused'
    job.note('write', calledAtUs, { answer, value: balance, token, ...detail }, round)
  }

  close(): Promise<void> {
    return this.#pool.end()
  }
}

async function refusalOf(act: () => Promise<void>): Promise<string | null> {
  try {
    await act()
    return null
  } catch (error) {
    if (error instanceof StaleTokenError || error instanceof TokenConflictError) return error.code
    throw error
  }
}
