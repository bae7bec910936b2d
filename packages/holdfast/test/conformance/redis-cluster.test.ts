import { afterAll, beforeAll, describe, it } from 'vitest'
import { type RedisCluster, startRedisCluster } from '../../../cli/src/lab/servers/index.ts'
import { testBackend } from '../../src/testkit/backend-suite.ts'
import { openClusterPair } from '../support/redis-cluster.ts'

let cluster: RedisCluster

beforeAll(async () => {
  cluster = await startRedisCluster()
})

afterAll(() => cluster.stop())

for (const client of ['ioredis 6', 'node-redis 6'] as const) {
  const open = () => openClusterPair(client, cluster)
  testBackend({ describe, it }, { title: `redis cluster by ${client}`, ttlMsMin: 100, open })
}
