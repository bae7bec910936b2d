/** Guarded transactions beside plain ones, on a PostgreSQL that keeps what it was told (fsync). */
import pg from 'pg'
import { type PostgresServer, startPostgres } from '../../../packages/cli/dist/lab/servers/index.js'
import { openTransactors, type Transactor, type Transactors } from '../contestants/transactions.ts'
import type { Entry } from '../measure.ts'

/** Of one slice: about as long as the slices of the other groups. */
const TRANSACTIONS = 20
const REFERENCE = 'pg'

export interface TransactionBed {
  readonly entries: readonly Entry[]
  close(): Promise<void>
}

export async function openTransactionBed(): Promise<TransactionBed> {
  const server: PostgresServer = await startPostgres()
  const look = new pg.Pool({ ...server.connection, max: 1 })
  // The server ends before it does when something failed.
  look.on('error', () => undefined)
  let transactors: Transactors | null = null
  const close = async (): Promise<void> => {
    await Promise.allSettled([look.end(), transactors?.close()])
    await server.stop()
  }
  try {
    const opened = await openTransactors(server.connection)
    transactors = opened
    const entries: Entry[] = []
    for (const [id, transactor] of opened.all.entries()) {
      await look.query('INSERT INTO wallets (id, balance) VALUES ($1, 0)', [id])
      entries.push(entryOf(transactor, id, look, opened))
    }
    return { entries, close }
  } catch (error) {
    await close()
    throw error
  }
}

function entryOf(
  transactor: Transactor,
  id: number,
  look: pg.Pool,
  { roundTrips }: Transactors,
): Entry {
  const { who, variant, client, isReference } = transactor
  let expected = 0
  return {
    ...{ who, variant, client, isReference },
    comparedWith: REFERENCE,
    inFlight: 1,
    isOwnerChecked: true,
    slice: async () => {
      const latenciesMs: number[] = []
      const before = roundTrips(client)
      const sliceBeganAtMs = performance.now()
      for (let done = 0; done < TRANSACTIONS; done++) {
        const beganAtMs = performance.now()
        await transactor.run(id)
        latenciesMs.push(performance.now() - beganAtMs)
      }
      const elapsedMs = performance.now() - sliceBeganAtMs
      const after = roundTrips(client)
      expected += TRANSACTIONS
      const { rows } = await look.query('SELECT balance FROM wallets WHERE id = $1', [id])
      if (rows[0]?.balance !== expected) {
        throw new Error(`the balance is ${rows[0]?.balance} after ${expected} transactions`)
      }
      const sample = { count: TRANSACTIONS, elapsedMs, latenciesMs }
      return before === null || after === null ? sample : { ...sample, requests: after - before }
    },
    close: async () => undefined,
  }
}
