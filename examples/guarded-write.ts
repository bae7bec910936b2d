/** The lock chooses who works; the guard makes PostgreSQL refuse whoever works too late. */

// #region all
import { createLocks } from 'holdfast'
import { postgresGuard } from 'holdfast/guards/postgres'
import { redisBackend } from 'holdfast/redis'
import { Redis } from 'ioredis'
import { Pool } from 'pg'
// #endregion
import { createWallets } from './support/wallets.ts'

await createWallets()

// #region all
const redis = new Redis(process.env['REDIS_URL'] ?? 'redis://127.0.0.1:6379', {
  lazyConnect: true,
  enableOfflineQueue: false,
  autoResendUnfulfilledCommands: false,
  maxRetriesPerRequest: 0,
})
await redis.connect()
const locks = createLocks(redisBackend(redis), { ttlMs: 10_000 })

const pool = new Pool() // PGHOST, PGPORT, PGUSER, PGDATABASE, as everywhere.
pool.on('error', (error) => console.error('an idle connection ended:', error.message))
const guard = postgresGuard(pool)
await guard.migrate() // Creates the guard's one table, if it is not there.

const balance = await locks.using('wallet:42', { waitMs: 5_000 }, (lease) =>
  // One transaction: begin, claim, your function, commit.
  guard.transaction(lease, async (tx) => {
    const { rows } = await tx.query<{ balance: number }>(
      'select balance from wallets where id = 42',
    )
    const next = (rows[0]?.balance ?? 0) + 1
    await tx.query('update wallets set balance = $1 where id = 42', [next])
    return next
  }),
)
console.log(`balance ${balance}`)
// #endregion

await locks.close()
await Promise.all([redis.quit(), pool.end()])
