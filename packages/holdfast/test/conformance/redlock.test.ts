import { afterAll, beforeAll, describe, it } from 'vitest'
import { testBackend } from '../../src/testkit/backend-suite.ts'
import { CLIENTS } from './redis-clients.ts'
import { type RedlockPairs, startRedlockPairs } from './redlock-clients.ts'

for (const nodeCount of [1, 3]) {
  describe(`${nodeCount} nodes`, () => {
    let pairs: RedlockPairs

    beforeAll(async () => {
      pairs = await startRedlockPairs(nodeCount)
    })

    afterAll(() => pairs.stop())

    for (const client of Object.keys(CLIENTS)) {
      const open = () => pairs.open(client)
      testBackend({ describe, it }, { title: `redlock by ${client}`, ttlMsMin: 100, open })
    }
  })
}
