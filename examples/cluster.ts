/** Locks on a Redis Cluster through either client, with the settings that suit locks. */
import { createLocks } from 'holdfast'
import { redisBackend } from 'holdfast/redis'
import { Cluster } from 'ioredis'
import { createCluster } from 'redis'

const addresses = (process.env['REDIS_CLUSTER'] ?? '127.0.0.1:7000,127.0.0.1:7001').split(',')
const nodes = addresses.map((address) => {
  const [host = '', port = ''] = address.split(':')
  return { host, port: Number(port) }
})

// #region ioredis
const ioredis = new Cluster(nodes, {
  lazyConnect: true,
  retryDelayOnFailover: 0,
  retryDelayOnClusterDown: 0,
})
ioredis.on('error', (error) => console.error('redis:', error.message))
await ioredis.connect()
const viaIoredis = createLocks(redisBackend(ioredis))
// #endregion

// #region node-redis
const nodeRedis = createCluster({
  rootNodes: nodes.map((socket) => ({ socket })),
  defaults: { disableOfflineQueue: true },
})
nodeRedis.on('error', (error) => console.error('redis:', error.message)) // Or it ends the process.
await nodeRedis.connect()
const viaNodeRedis = createLocks(redisBackend(nodeRedis))
// #endregion

for (const locks of [viaIoredis, viaNodeRedis]) {
  locks.on('warning', ({ advice }) => console.warn(advice))
  // Names decide on which node a lock lies.
  for (const lockName of ['report:daily', 'wallet:42', '{orders}:import']) {
    const lease = await locks.acquire(lockName)
    console.log(`${lockName} held, token ${lease.fencingToken}`)
    await lease.release()
  }
  await locks.close()
}
await Promise.all([ioredis.quit(), nodeRedis.close()])
