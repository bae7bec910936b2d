import { afterAll, beforeAll, describe, it } from 'vitest'
import { testBackend } from '../../src/testkit/backend-suite.ts'
import { type RedlockPairs, startRedlockPairs } from './redlock-clients.ts'

// Whatever a client's version changes, the suite of one Redis has met already, by the same calls.
const LANES = { 1: ['ioredis 6'], 3: ['ioredis 6', 'node-redis 6'] }

for (const [nodeCount, clients] of Object.entries(LANES)) {
  describe(`${nodeCount} nodes`, () => {
    let pairs: RedlockPairs

    beforeAll(async () => {
      pairs = await startRedlockPairs(Number(nodeCount))
    })

    afterAll(() => pairs.stop())

    for (const client of clients) {
      const open = () => pairs.open(client)
      testBackend({ describe, it }, { title: `redlock by ${client}`, ttlMsMin: 100, open })
    }
  })
}
