/** What a test of the late writer does, on a real PostgreSQL: no lock, and no waiting. */
import { randomBytes, randomUUID } from 'node:crypto'
import type { Fenced } from 'holdfast'
import { postgresGuard } from 'holdfast/guards/postgres'
import { Pool } from 'pg'
import { createWallets } from './support/wallets.ts'

await createWallets()
const pool = new Pool()
const guard = postgresGuard(pool)
await guard.migrate()

/** The code under test. */
async function deposit(lease: Fenced, amount: number): Promise<void> {
  await guard.transaction(lease, async (tx) => {
    await tx.query('update wallets set balance = balance + $1 where id = 42', [amount])
  })
}

async function balance(): Promise<number> {
  const { rows } = await pool.query('select balance from wallets where id = 42')
  return rows[0].balance
}

// #region late
const lockName = `wallet:${randomUUID()}` // A new one for each test: its fence is kept for ever.
const holder = (fencingToken: bigint): Fenced => ({
  lockName,
  fencingToken,
  owner: randomBytes(16).toString('base64url'),
  source: 'test',
})

await guard.claim(holder(2n)) // The next holder has come.
const answer = await deposit(holder(1n), 50).catch((error) => error.code)
console.log(answer, await balance()) // STALE_TOKEN 100
// #endregion
await pool.end()
