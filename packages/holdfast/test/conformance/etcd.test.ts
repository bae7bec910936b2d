import { afterAll, beforeAll, describe, it } from 'vitest'
import { testBackend } from '../../src/testkit/backend-suite.ts'
import { type EtcdServer, openEtcdPair, startEtcd } from '../support/etcd.ts'

let server: EtcdServer

beforeAll(async () => {
  server = await startEtcd()
})

afterAll(() => server?.stop())

testBackend(
  { describe, it },
  {
    title: 'etcd, one member',
    ttlMsMin: 2000,
    open: async () => openEtcdPair([server.endpoint]),
  },
)
