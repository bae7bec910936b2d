import { afterAll, beforeAll, describe, it } from 'vitest'
import { testBackend } from '../../src/testkit/backend-suite.ts'
import { openEtcdPair } from '../support/etcd.ts'
import { EtcdTurmoil } from '../support/etcd-turmoil.ts'

let turmoil: EtcdTurmoil

beforeAll(async () => {
  turmoil = await EtcdTurmoil.start()
})

afterAll(() => turmoil?.stop())

// Each check begins with a leader that was just killed, or stopped, and is away all the time.
const open = async () => {
  await turmoil.next()
  const pair = openEtcdPair(turmoil.endpoints)
  await turmoil.untilServed(pair)
  return pair
}
testBackend({ describe, it }, { title: 'etcd without its leader', ttlMsMin: 2000, open })
