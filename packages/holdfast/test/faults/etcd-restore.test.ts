import { join } from 'node:path'
import { afterEach, expect, it } from 'vitest'
import { openFolder } from '../../../cli/src/lab/servers/index.ts'
import { etcdBackendWith } from '../../src/backends/etcd/etcd-backend.ts'
import type { Backend } from '../../src/core/backend.ts'
import { systemSeams } from '../../src/core/seams.ts'
import { acquired } from '../../src/testkit/backend-harness.ts'
import { type EtcdServer, etcdctl, startEtcd } from '../support/etcd.ts'

const ends: (() => unknown)[] = []

afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end()
})

async function serverWith(...args: string[]): Promise<EtcdServer> {
  const server = await startEtcd({ args })
  ends.push(() => server.stop())
  return server
}

function backendOn({ endpoint }: EtcdServer): Backend {
  const backend = etcdBackendWith(systemSeams, { endpoints: [endpoint] })
  ends.push(() => backend.close())
  return backend
}

async function grants(backend: Backend, count: number): Promise<bigint> {
  let last = 0n
  for (let index = 0; index < count; index++) {
    const grant = await acquired(backend, 'restored')
    last = grant.fencingToken
    await backend.release(grant, 0)
  }
  return last
}

// C3. A snapshot was restored: revisions went back, and tokens that guards had seen came again. Nothing
// tells from inside that it happened; what mends it must work.
it('after a restore tokens are smaller, until they are raised', async () => {
  const folder = await openFolder('etcd-restore')
  ends.push(() => folder.remove())
  const snapshot = join(folder.path, 'snapshot')
  const data = join(folder.path, 'data')
  const before = await serverWith()
  await grants(backendOn(before), 3)
  await etcdctl(before, 'snapshot', 'save', snapshot)
  const highest = await grants(backendOn(before), 20)
  await before.stop()
  await etcdctl(before, 'snapshot', 'restore', snapshot, '--data-dir', data)

  const after = backendOn(await serverWith('--data-dir', data))
  const again = await acquired(after, 'restored')
  await after.release(again, 0)
  expect(again.fencingToken).toBeLessThan(highest)

  await after.raise('restored', highest)
  const raised = await acquired(after, 'restored')
  expect(raised.fencingToken).toBeGreaterThan(highest)
  // For all names of the key prefix, and for whoever comes later.
  await after.release(raised, 0)
  const other = await acquired(after, 'another')
  expect(other.fencingToken).toBeGreaterThan(raised.fencingToken)
})
