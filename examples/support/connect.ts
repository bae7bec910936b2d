/** What the other examples share: locks on Redis, with the settings that quick-start.ts explains. */
import { createLocks, type Locks } from 'holdfast'
import { redisBackend } from 'holdfast/redis'
import { Redis } from 'ioredis'

export async function connectRedis(): Promise<Redis> {
  const redis = new Redis(process.env['REDIS_URL'] ?? 'redis://127.0.0.1:6379', {
    lazyConnect: true,
    enableOfflineQueue: false,
    autoResendUnfulfilledCommands: false,
    maxRetriesPerRequest: 0,
  })
  await redis.connect()
  return redis
}

export function locksOn(redis: Redis): Locks {
  return createLocks(redisBackend(redis), { ttlMs: 10_000, waitMs: 5_000 })
}
