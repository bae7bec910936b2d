import { afterAll, beforeAll, expect, it } from 'vitest'
import { judgeDrivers, leadThroughFaults, ROUNDS_MS_MAX, SAFE } from '../support/election-rounds.ts'
import { type EtcdServer, startEtcd } from '../support/etcd.ts'

let server: EtcdServer

beforeAll(async () => {
  server = await startEtcd()
})

afterAll(() => server?.stop())

for (const driver of judgeDrivers) {
  // B096: two leaders, of whom one was paused, write by turns.
  it(
    'one of three leads, whatever ends the leader, and the guard accepts no write of a deposed one',
    async () => {
      const verdict = await leadThroughFaults(driver, {
        packages: ['@grpc/grpc-js', '@grpc/proto-loader'],
        ttlMs: 2000,
        backendText: `import { etcdBackend } from "./dist/etcd.js"
const backend = etcdBackend({ endpoints: [${JSON.stringify(server.endpoint)}] })`,
      })
      expect(verdict).toEqual(SAFE)
    },
    ROUNDS_MS_MAX,
  )
}
