/** A child process that writes under the lease of its parent, which keeps the lock. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fencedFromEnv } from 'holdfast'
import { postgresGuard } from 'holdfast/guards/postgres'
import { Pool } from 'pg'
import { connectRedis, locksOn } from './support/connect.ts'
import { createWallets } from './support/wallets.ts'

const program = process.argv[1] ?? ''

async function parent(): Promise<void> {
  await createWallets()
  const redis = await connectRedis()
  const locks = locksOn(redis)

  // #region parent
  await locks.using('wallet:42', async (lease) => {
    const { lockName, fencingToken, owner, source } = lease
    // JSON knows no bigint, so the token goes as text. Whoever sees the owner can release the lock.
    const fenced = JSON.stringify({ lockName, fencingToken: `${fencingToken}`, owner, source })
    const child = spawn(process.execPath, [program], {
      env: { ...process.env, HOLDFAST_LEASE: fenced },
      stdio: 'inherit',
      signal: lease.signal, // The child is ended when the lease is lost.
    })
    const [code] = await once(child, 'exit')
    if (code !== 0) throw new Error(`the child ended with ${code}`)
  })
  // #endregion
  await locks.close()
  await redis.quit()
}

async function child(): Promise<void> {
  const pool = new Pool()
  const guard = postgresGuard(pool)
  await guard.migrate()
  // #region child
  const lease = fencedFromEnv() // From HOLDFAST_LEASE.
  await guard.transaction(lease, async (tx) => {
    await tx.query('update wallets set balance = balance + 1 where id = 42')
  })
  // #endregion
  const { rows } = await pool.query('select balance from wallets where id = 42')
  console.log(`the child wrote: balance ${rows[0].balance}`)
  await pool.end()
}

await (process.env['HOLDFAST_LEASE'] === undefined ? parent() : child())
