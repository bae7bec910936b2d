import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { testBackend } from '../../src/testkit/backend-suite.ts'
import { type RedisPairs, startRedisPairs } from './redis-clients.ts'

let pairs: RedisPairs

beforeAll(async () => {
  pairs = await startRedisPairs(true)
})

afterAll(() => pairs.stop())

// A proxy that changes what passes would make every experiment with its faults worthless.
for (const client of ['ioredis 6', 'node-redis 6']) {
  const open = () => pairs.open(client)
  testBackend({ describe, it }, { title: `redis by ${client} behind a proxy`, ttlMsMin: 100, open })
}

it('these connections went through the proxy', () => {
  expect(pairs.proxiedCount()).toBeGreaterThan(100)
})
