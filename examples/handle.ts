/** The handle form: a lease that is released at the end of its block. */
import { connectRedis, locksOn } from './support/connect.ts'

const redis = await connectRedis()
const locks = locksOn(redis)

// #region handle
async function nightly(signal?: AbortSignal): Promise<'done' | 'someone else does it'> {
  // Asks once. `await using` needs TypeScript or Node 24; without them: try, finally, release().
  await using lease = await locks.tryAcquire('nightly', { minHoldMs: 60_000, signal })
  if (lease === null) return 'someone else does it'

  for (const part of ['customers', 'orders', 'invoices']) {
    lease.assertValid(500) // Throws unless half a second of validity is left.
    await exportPart(part, lease.signal) // Ends early when the lease is lost.
  }
  return 'done'
}
// #endregion

async function exportPart(part: string, signal: AbortSignal): Promise<void> {
  signal.throwIfAborted()
  console.log(`exported ${part}`)
}

console.log(await nightly())
console.log(await nightly()) // Released already, and taken all the same: minHoldMs is not over.

// #region plain
const lease = await locks.acquire('invoice:7', { waitMs: 1_000 })
try {
  console.log(`invoice 7 is ours for ${Math.round(lease.remainingMs())} ms at least`)
} finally {
  await lease.release()
}
// #endregion

await locks.close()
await redis.quit()
