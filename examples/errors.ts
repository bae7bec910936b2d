/** One decision per error, each of them brought about here. */
import { LeaseLostError, LockError, LockHeldError, StaleTokenError } from 'holdfast'
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

// #region decide
async function attempt(work: () => Promise<void>): Promise<string> {
  try {
    await work()
    return 'done'
  } catch (error) {
    if (error instanceof LockHeldError) return `busy: held by process ${error.holder?.pid}`
    if (error instanceof LeaseLostError) return `lost (${error.reason}): check what was done`
    if (error instanceof StaleTokenError) return 'refused: a newer holder has the data'
    if (error instanceof LockError && error.code === 'OUTCOME_UNKNOWN') return 'look, then retry'
    if (error instanceof LockError && error.code === 'BACKEND_UNAVAILABLE') return 'retry later'
    throw error
  }
}
// #endregion

async function send(work: () => Promise<void>): Promise<string> {
  // #region page
  try {
    await locks.using('invoice:7', work)
  } catch (error) {
    if (error instanceof LockHeldError) return 'someone else does it'
    if (error instanceof LockError && error.code === 'OUTCOME_UNKNOWN') return 'look, then retry'
    throw error
  }
  // #endregion
  return 'sent'
}

console.log(await send(async () => {}))

const busy = await locks.acquire('wallet:42')
console.log(await attempt(() => locks.using('wallet:42', { waitMs: 100 }, async () => {})))
await busy.release()

// A lease that nobody renews, and work that takes longer.
const short = { ttlMs: 300, renew: false }
console.log(
  await attempt(() =>
    locks.using('wallet:42', short, async (lease) => {
      await new Promise((resolve) => setTimeout(resolve, 400))
      lease.assertValid()
    }),
  ),
)

// A late writer: what is left of its lease are the four fields that a guard needs.
const { lockName, fencingToken, owner, source } = await locks.acquire('wallet:42', short)
const late = { lockName, fencingToken, owner, source }
const next = await locks.acquire('wallet:42')
await guard.claim(next)
console.log(
  await attempt(() =>
    guard.transaction(late, async (tx) => {
      await tx.query('update wallets set balance = 0 where id = 42')
    }),
  ),
)
await next.release()

await locks.close()
await Promise.all([redis.quit(), pool.end()])
