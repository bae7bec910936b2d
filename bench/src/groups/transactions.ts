/** Guarded transactions beside plain ones, on a PostgreSQL that keeps what it was told (fsync). */
import pg from 'pg'
import { startPostgres } from '../../../packages/cli/dist/lab/servers/index.js'
import { openPgTransactors } from '../contestants/pg-transactions.ts'
import { openPostgresJsTransactors } from '../contestants/postgres-js-transactions.ts'
import type { Transactor, Transactors } from '../contestants/transactions.ts'
import type { Entry } from '../measure.ts'

/** Of one slice: about as long as the slices of the other groups. */
const TRANSACTIONS = 20

export interface TransactionBed {
  readonly entries: readonly Entry[]
  /** Beside the contestants' connections. */
  readonly look: pg.Pool
  close(): Promise<void>
}

export async function openTransactionBed(): Promise<TransactionBed> {
  const server = await startPostgres()
  const look = new pg.Pool({ ...server.connection, max: 1 })
  // The server ends before it does when something failed.
  look.on('error', () => undefined)
  const opened: Transactors[] = []
  const close = async (): Promise<void> => {
    await Promise.allSettled([look.end(), ...opened.map((one) => one.close())])
    await server.stop()
  }
  try {
    const entries: Entry[] = []
    for (const open of [openPgTransactors, openPostgresJsTransactors]) {
      const transactors = await open(server.connection)
      opened.push(transactors)
      for (const transactor of transactors.all) {
        const id = entries.length
        await look.query(`INSERT INTO ${transactor.table} (id, balance) VALUES ($1, 0)`, [id])
        const entry = transactionEntry(transactor, id, look, transactors.roundTrips)
        await entry.slice()
        entries.push(entry)
      }
    }
    return { entries, look, close }
  } catch (error) {
    await close()
    throw error
  }
}

/** @param id A row of the transactor's table, with the balance 0. */
export function transactionEntry(
  transactor: Transactor,
  id: number,
  look: pg.Pool,
  roundTrips: Transactors['roundTrips'],
): Entry {
  const { who, variant, client, isReference, comparedWith, table } = transactor
  let expected = 0
  return {
    ...{ who, variant, client, isReference, comparedWith },
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
      const { rows } = await look.query(`SELECT balance FROM ${table} WHERE id = $1`, [id])
      if (rows[0]?.balance !== expected) {
        throw new Error(`the balance is ${rows[0]?.balance} after ${expected} transactions`)
      }
      const sample = { count: TRANSACTIONS, elapsedMs, latenciesMs }
      return before === null || after === null ? sample : { ...sample, requests: after - before }
    },
    close: async () => undefined,
  }
}
