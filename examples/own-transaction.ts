/** The claim inside a transaction of your own, where the data code begins and commits itself. */
import { postgresGuard } from 'holdfast/guards/postgres'
import { Pool } from 'pg'
import { connectRedis, locksOn } from './support/connect.ts'
import { createWallets } from './support/wallets.ts'

await createWallets()
const redis = await connectRedis()
const locks = locksOn(redis)
const pool = new Pool()
const guard = postgresGuard(pool)
await guard.migrate()

// #region own
await locks.using('wallet:42', async (lease) => {
  const client = await pool.connect()
  try {
    await client.query('begin')
    await guard.claim(lease, client) // Before the first read that the work depends on.
    const { rows } = await client.query('select balance from wallets where id = 42')
    await client.query('update wallets set balance = $1 where id = 42', [rows[0].balance + 1])
    lease.assertValid()
    await client.query('commit')
  } catch (error) {
    await client.query('rollback')
    throw error
  } finally {
    client.release()
  }
})
// #endregion

const { rows } = await pool.query('select balance from wallets where id = 42')
console.log(`balance ${rows[0].balance}`)
await locks.close()
await Promise.all([redis.quit(), pool.end()])
