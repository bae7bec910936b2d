import { afterAll, beforeAll, describe, it } from 'vitest'
import { testElection } from '../../src/testkit/election-suite.ts'
import { type EtcdServer, openEtcdPair, startEtcd } from '../support/etcd.ts'

let server: EtcdServer

beforeAll(async () => {
  server = await startEtcd()
})

afterAll(() => server?.stop())

const open = async () => openEtcdPair([server.endpoint])
testElection({ describe, it }, { title: 'etcd, one member', ttlMsMin: 2000, open })
