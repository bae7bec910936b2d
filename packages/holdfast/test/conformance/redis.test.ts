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

const polling = () => pairs.open('ioredis 6', { subscriber: false })
testBackend({ describe, it }, { title: 'redis polled', ttlMsMin: 100, open: polling })

const gated = async () => {
  await pairs.admit(86_400_000)
  return pairs.open('ioredis 5', { onEmpty: 'wait', ttlMsMax: 86_400_000 })
}
testBackend({ describe, it }, { title: 'redis that may wait', ttlMsMin: 100, open: gated })
