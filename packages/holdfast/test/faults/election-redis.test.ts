import { afterAll, beforeAll, expect, it } from 'vitest'
import { type RedisServer, startRedis } from '../../../cli/src/lab/servers/index.ts'
import { REDIS_TEXT } from '../support/election-processes.ts'
import { judgeDrivers, leadThroughFaults, ROUNDS_MS_MAX, SAFE } from '../support/election-rounds.ts'

let server: RedisServer

beforeAll(async () => {
  server = await startRedis()
})

afterAll(() => server.stop())

for (const driver of judgeDrivers) {
  // B096: two leaders, of whom one was paused, write by turns.
  it(
    'one of three leads, whatever ends the leader, and the guard accepts no write of a deposed one',
    async () => {
      const verdict = await leadThroughFaults(driver, {
        ttlMs: 600,
        backendText: `${REDIS_TEXT}
import { redisBackend } from "./dist/redis.js"
const backend = redisBackend(await connected(${server.port}))`,
      })
      expect(verdict).toEqual(SAFE)
    },
    ROUNDS_MS_MAX,
  )
}
