/** Who holds what, and how to take a lock away from a holder that is stuck. */
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

// Somebody who holds a lock and does not come back to it.
const stuck = await locks.acquire('wallet:42', { label: 'import of March' })

// #region revoke
for await (const lock of locks.list({ prefix: 'wallet:' })) {
  const { lockName, fencingToken, holder, remainingMs } = lock
  const left = remainingMs === null ? 'until it is ended' : `${remainingMs} ms left` // Null on etcd.
  console.log(lockName, holder?.label, left)
  if (fencingToken === null || holder?.label !== 'import of March') continue

  // Null: it is no longer that holder's. Nothing is taken from whoever came next.
  await using taken = await locks.revoke(lockName, { fencingToken, reason: 'import hangs' })
  if (taken !== null) await guard.claim(taken) // From here on the old holder's writes are refused.
}
// #endregion

const refused = await guard
  .transaction({ ...fencedOf(stuck) }, (tx) => tx.query('update wallets set balance = 0'))
  .then(
    () => 'written',
    (error) => error.code,
  )
console.log(`the old holder's write: ${refused}`)
console.log(`held by: ${(await locks.inspect('wallet:42'))?.holder?.label ?? 'nobody'}`)

await locks.close()
await Promise.all([redis.quit(), pool.end()])

function fencedOf(lease: typeof stuck) {
  const { lockName, fencingToken, owner, source } = lease
  return { lockName, fencingToken, owner, source }
}
