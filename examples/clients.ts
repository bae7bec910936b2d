/** Locks through either client, with the settings that suit locks, and Redis' warnings heard. */
import { createLocks } from 'holdfast'
import { redisBackend } from 'holdfast/redis'
import { Redis } from 'ioredis'
import { createClient } from 'redis'

const url = process.env['REDIS_URL'] ?? 'redis://127.0.0.1:6379'

// #region ioredis
const ioredis = new Redis(url, {
  lazyConnect: true,
  enableOfflineQueue: false,
  autoResendUnfulfilledCommands: false,
  maxRetriesPerRequest: 0,
})
ioredis.on('error', (error) => console.error('redis:', error.message))
await ioredis.connect()
const viaIoredis = createLocks(redisBackend(ioredis))
// #endregion

// #region node-redis
const nodeRedis = createClient({ url, disableOfflineQueue: true })
nodeRedis.on('error', (error) => console.error('redis:', error.message)) // Or it ends the process.
await nodeRedis.connect()
const viaNodeRedis = createLocks(redisBackend(nodeRedis))
// #endregion

for (const locks of [viaIoredis, viaNodeRedis]) {
  locks.on('warning', ({ advice }) => console.warn(advice))
  const lease = await locks.acquire('report:daily')
  console.log(`held, token ${lease.fencingToken}`)
  await lease.release()
  await locks.close()
}
await Promise.all([ioredis.quit(), nodeRedis.close()])
