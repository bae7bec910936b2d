/** Locks in etcd, and a write that etcd itself does only while the lock is held. */
// #region locks
import { createLocks } from 'holdfast'
import { type EtcdCompare, etcdBackend, etcdGuard } from 'holdfast/etcd'

const endpoints = (process.env['ETCD_ENDPOINTS'] ?? '127.0.0.1:2379').split(',')
const locks = createLocks(etcdBackend({ endpoints })) // Members, host:port, with commas between.
// #endregion

await locks.using('report:daily', async (lease) => {
  console.log(`held, token ${lease.fencingToken}`)
})

// #region guard
const guard = etcdGuard(locks.backend)
const lease = await locks.acquire('config:billing')
const compares = await guard.compares(lease) // They hold as long as the lease does.
console.log('while it is held:', await putIf(compares, 'billing/rate', '19'))
// #endregion
await lease.release()
console.log('when it is over:', await putIf(compares, 'billing/rate', '7'))

// #region put
/** By the JSON gateway of etcd; every other client of it takes the same compare. */
async function putIf(compares: readonly EtcdCompare[], key: string, value: string) {
  const base64 = (bytes: string | Uint8Array) => Buffer.from(bytes).toString('base64')
  const body = {
    compare: compares.map((compare) => ({
      target: 'CREATE',
      key: base64(compare.key),
      create_revision: compare.createRevision,
    })),
    success: [{ request_put: { key: base64(key), value: base64(value) } }],
  }
  const url = `http://${endpoints[0]}/v3/kv/txn`
  const response = await fetch(url, { method: 'POST', body: JSON.stringify(body) })
  const { succeeded = false } = (await response.json()) as { succeeded?: boolean }
  return succeeded ? 'written' : 'refused'
}
// #endregion

await locks.close()
