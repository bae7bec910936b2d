import { afterAll, beforeAll, describe, it } from 'vitest'
import { testBackend } from '../../src/testkit/backend-suite.ts'
import { type EtcdCluster, openEtcdPair, startEtcdCluster } from '../support/etcd.ts'

let cluster: EtcdCluster

beforeAll(async () => {
  cluster = await startEtcdCluster()
})

afterAll(() => cluster?.stop())

const open = async () => openEtcdPair(cluster.endpoints)
testBackend({ describe, it }, { title: 'etcd, three members', ttlMsMin: 2000, open })

const own = async () => openEtcdPair(cluster.endpoints, { leaseMode: 'own', keyPrefix: 'own/' })
testBackend({ describe, it }, { title: 'etcd, a lease each', ttlMsMin: 2000, open: own })
