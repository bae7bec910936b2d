import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { testBackend } from '../../src/testkit/backend-suite.ts'
import { OTHER_PROTOCOLS, type RedisPairs, SPOKEN, startRedisPairs } from './redis-clients.ts'

let pairs: RedisPairs

beforeAll(async () => {
  pairs = await startRedisPairs()
})

afterAll(() => pairs.stop())

for (const client of Object.keys(OTHER_PROTOCOLS)) {
  const open = () => pairs.open(client)
  testBackend({ describe, it }, { title: `redis by ${client}`, ttlMsMin: 100, open })
}

it('each client speaks the protocol that its lane is there for', async () => {
  expect(await pairs.spoken()).toEqual(SPOKEN)
})
