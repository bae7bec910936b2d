/** The guard through postgres.js, around a transaction of its own and inside one of yours. */
import { postgresGuard } from 'holdfast/guards/postgres'
import postgres from 'postgres'
import { connectRedis, locksOn } from './support/connect.ts'
import { createWallets } from './support/wallets.ts'

await createWallets()
const redis = await connectRedis()
const locks = locksOn(redis)

// #region guard
const sql = postgres() // PGHOST, PGPORT, PGUSER, PGDATABASE, as everywhere.
const guard = postgresGuard(sql)
await guard.migrate()

await locks.using('wallet:42', (lease) =>
  guard.transaction(lease, async (tx) => {
    const [wallet] = await tx<{ balance: number }[]>`select balance from wallets where id = 42`
    await tx`update wallets set balance = ${(wallet?.balance ?? 0) + 1} where id = 42`
  }),
)
// #endregion

// #region claim
await locks.using('wallet:42', (lease) =>
  sql.begin(async (tx) => {
    await guard.claim(lease, tx) // Before the first read that the work depends on.
    await tx`update wallets set balance = balance + 1 where id = 42`
    lease.assertValid()
  }),
)
// #endregion

const [wallet] = await sql`select balance from wallets where id = 42`
console.log(`balance ${wallet?.['balance']}`)
await locks.close()
await Promise.all([redis.quit(), sql.end()])
