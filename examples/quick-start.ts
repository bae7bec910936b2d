/** A lock on Redis, held while a function runs. */
// #region all
import { createLocks } from 'holdfast'
import { redisBackend } from 'holdfast/redis'
import { Redis } from 'ioredis'

const redis = new Redis(process.env['REDIS_URL'] ?? 'redis://127.0.0.1:6379', {
  lazyConnect: true,
  // A request that its caller gave up must not be sent later: see docs/backends/redis.md.
  enableOfflineQueue: false,
  autoResendUnfulfilledCommands: false,
  maxRetriesPerRequest: 0,
})
await redis.connect()
const locks = createLocks(redisBackend(redis))

await locks.using('report:daily', { ttlMs: 10_000, waitMs: 5_000 }, async (lease) => {
  console.log(`held with fencing token ${lease.fencingToken}`)
  // Your work. Pass lease.signal on: it aborts when the lease is lost.
})

await locks.close()
await redis.quit()
// #endregion
