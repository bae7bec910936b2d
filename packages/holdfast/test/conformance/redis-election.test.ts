import { afterAll, beforeAll, describe, it } from 'vitest'
import { testElection } from '../../src/testkit/election-suite.ts'
import { type RedisPairs, startRedisPairs } from './redis-clients.ts'

let pairs: RedisPairs

beforeAll(async () => {
  pairs = await startRedisPairs()
})

afterAll(() => pairs.stop())

for (const client of ['ioredis 6', 'node-redis 6']) {
  const open = () => pairs.open(client)
  testElection({ describe, it }, { title: `redis by ${client}`, ttlMsMin: 100, open })
}

const polling = () => pairs.open('ioredis 6', { subscriber: false })
testElection({ describe, it }, { title: 'redis polled', ttlMsMin: 100, open: polling })
