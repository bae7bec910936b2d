import { afterAll, beforeAll, describe, it } from 'vitest'
import { testElection } from '../../src/testkit/election-suite.ts'
import { type RedlockPairs, startRedlockPairs } from './redlock-clients.ts'

let pairs: RedlockPairs

beforeAll(async () => {
  pairs = await startRedlockPairs(3)
})

afterAll(() => pairs.stop())

const open = () => pairs.open('ioredis 6')
testElection({ describe, it }, { title: 'redlock of 3', ttlMsMin: 100, open })
