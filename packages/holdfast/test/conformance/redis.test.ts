import { afterAll, beforeAll, describe, it } from 'vitest'
import { testBackend } from '../../src/testkit/backend-suite.ts'
import { CLIENTS, type RedisPairs, startRedisPairs } from './redis-clients.ts'

let pairs: RedisPairs

beforeAll(async () => {
  pairs = await startRedisPairs()
})

afterAll(() => pairs.stop())

for (const client of Object.keys(CLIENTS)) {
  const open = () => pairs.open(client)
  testBackend({ describe, it }, { title: `redis by ${client}`, ttlMsMin: 100, open })
}

const open = () => pairs.open('ioredis 6', { subscriber: false })
testBackend({ describe, it }, { title: 'redis without a subscriber', ttlMsMin: 100, open })
