import { afterAll, beforeAll, expect, it } from 'vitest'
import { type RedisServer, startRedis } from '../../../cli/src/lab/servers/index.ts'
import { REDIS_TEXT } from '../support/election-processes.ts'
import { judgeDrivers, leadThroughFaults, ROUNDS_MS_MAX, SAFE } from '../support/election-rounds.ts'

let servers: RedisServer[] = []

beforeAll(async () => {
  servers = await Promise.all([startRedis(), startRedis(), startRedis()])
})

afterAll(async () => {
  for (const server of servers) await server.stop()
})

for (const driver of judgeDrivers) {
  // B096: two leaders, of whom one was paused, write by turns.
  it(
    'one of three leads, whatever ends the leader, and the guard accepts no write of a deposed one',
    async () => {
      const verdict = await leadThroughFaults(driver, {
        ttlMs: 900,
        backendText: `${REDIS_TEXT}
import { redlockBackend } from "./dist/redlock.js"
const [a, b, c] = await Promise.all(${JSON.stringify(servers.map(({ port }) => port))}.map(connected))
const backend = redlockBackend({ a, b, c }, { onEmpty: "fresh", maxTtlMs: 30_000 })`,
      })
      expect(verdict).toEqual(SAFE)
    },
    ROUNDS_MS_MAX,
  )
}
