import { expect, it } from 'vitest'
import { memoryBackend } from '../../src/backends/memory/memory.ts'
import { EtcdClient } from '../../src/clients/etcd/client.ts'
import {
  COMPARE_CREATE_REVISION,
  COMPARE_EQUAL,
  type TxnRequest,
} from '../../src/clients/etcd/messages.ts'
import { LeaseLostError, TokenSourceError } from '../../src/core/errors.ts'
import { systemSeams } from '../../src/core/seams.ts'
import { type EtcdCompare, etcdGuard } from '../../src/etcd.ts'
import { acquired } from '../../src/testkit/backend-harness.ts'
import { allKeys } from '../support/etcd.ts'
import { standOnEtcd } from '../support/etcd-stand.ts'

const stand = standOnEtcd()
const BALANCE = Buffer.from('data-balance')

/** A transaction of a user, who has a client of etcd of their own. */
function write(compares: readonly EtcdCompare[], value: string): TxnRequest {
  return {
    compare: compares.map(({ key, createRevision }) => ({
      ...{ key: Buffer.from(key), create_revision: createRevision },
      ...{ result: COMPARE_EQUAL, target: COMPARE_CREATE_REVISION },
    })),
    success: [{ request_put: { key: BALANCE, value: Buffer.from(value) } }],
    failure: [],
  }
}

function ownClient(): EtcdClient {
  const target = { endpoints: [stand.server.endpoint], tls: null, login: null }
  const client = new EtcdClient(() => systemSeams, target)
  stand.ends.push(() => client.close())
  return client
}

async function balance(): Promise<string | undefined> {
  const keys = await allKeys([stand.server.endpoint])
  return keys.find(({ key }) => key.equals(BALANCE))?.value?.toString()
}

// The holder was stopped between its last look and its write, and the next holder has written since.
it('a write that was prepared under a lease is refused when the lock has changed hands', async () => {
  const [ours, theirs] = [stand.backend(), stand.backend()]
  const client = ownClient()
  const grant = await acquired(ours, 'account')
  const compares = await etcdGuard(ours).compares(grant)
  const early = await client.write('Txn', write(compares, 'first'), 5000, 'a write')
  expect([early.succeeded, await balance()]).toEqual([true, 'first'])
  const late = write(compares, 'late')
  await ours.release(grant, 0)
  const next = await acquired(theirs, 'account')
  const nextCompares = await etcdGuard(theirs).compares(next)
  await client.write('Txn', write(nextCompares, 'second'), 5000, 'a write')

  const answer = await client.write('Txn', late, 5000, 'a write')

  expect(answer.succeeded ?? false).toBe(false)
  expect(await balance()).toBe('second')
  await expect(etcdGuard(ours).compares(grant)).rejects.toBeInstanceOf(LeaseLostError)
})

// The life of the lock must not matter: a renewal, or a new value, is the same lease.
it('the compares hold through renewals, proclamations and raised tokens', async () => {
  const backend = stand.backend()
  const grant = await acquired(backend, 'kept', { ttlMs: 5000 })
  const compares = await etcdGuard(backend).compares(grant)
  await backend.raise('kept', grant.fencingToken + 1_000_000n)
  await backend.renew(grant, 70_000)
  await backend.proclaim(grant, 'here')
  const answer = await ownClient().write('Txn', write(compares, 'kept'), 5000, 'a write')
  expect(answer.succeeded).toBe(true)
  expect(await etcdGuard(backend).compares(grant)).toEqual(compares)
  await backend.release(grant, 0)
  const raised = await acquired(backend, 'kept')
  const [compare] = await etcdGuard(backend).compares(raised)
  expect(raised.fencingToken).toBeGreaterThan(BigInt(compare?.createRevision ?? 0))
})

// "Lost after 0 ms: expired" was said of a lease that had been released after minutes.
it('the error of a lease that is over says how it ended, and of a bare token no more than is known', async () => {
  const locks = stand.locks()
  const guard = etcdGuard(locks.backend)
  const lease = await locks.acquire('over')
  const { lockName, fencingToken, owner, source } = lease
  await lease.release()
  const error = await guard.compares(lease).catch((reason: unknown) => reason)
  expect(error).toBeInstanceOf(LeaseLostError)
  expect((error as Error).message).toMatch(/^lease on "over" lost after \d+ ms: it was released$/)
  expect((error as LeaseLostError).heldMs).toBeGreaterThan(0)
  const bare = guard.compares({ lockName, fencingToken, owner, source })
  await expect(bare).rejects.toMatchObject({
    ...{ code: 'LEASE_LOST', heldMs: null },
    message: 'lease on "over" lost: its key is not in etcd any more',
  })
})

it('a lease of another store is refused, and so is another backend', async () => {
  const grant = await acquired(stand.backend(), 'mine')
  const other = stand.backend({ keyPrefix: 'other/' })
  await expect(etcdGuard(other).compares(grant)).rejects.toBeInstanceOf(TokenSourceError)
  expect(() => etcdGuard(memoryBackend())).toThrow('a backend that etcdBackend made')
})
