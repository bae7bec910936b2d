/** A test of an application against a real Redis that falls silent. */
import { createLocks } from 'holdfast'
import { redisBackend } from 'holdfast/redis'
import { startProxy } from 'holdfast/testkit'
import { Redis } from 'ioredis'

const { hostname, port } = new URL(process.env['REDIS_URL'] ?? 'redis://127.0.0.1:6379')
if (hostname !== '127.0.0.1') throw new Error('the proxy stands in front of a server on 127.0.0.1')

// #region silent
const proxy = await startProxy(Number(port)) // In front of the Redis of your tests.
const redis = new Redis(proxy.port, '127.0.0.1')
redis.on('error', () => {}) // A connection that is reset tells it.
const locks = createLocks(redisBackend(redis, { subscriber: false }), { ttlMs: 5_000 })

const lease = await locks.acquire('report:daily')
const startedAtMs = performance.now()
proxy.drop('toServer') // From here on nothing arrives, and nothing is refused.
await new Promise((resolve) => lease.signal.addEventListener('abort', resolve))
console.log(`told before the TTL: ${performance.now() - startedAtMs < 5_000}`)
// #endregion

// Over: the client connects anew, and what the silence left behind is deleted.
proxy.heal()
proxy.reset()
await lease.release()
await locks.close()
redis.disconnect()
await proxy.close()
