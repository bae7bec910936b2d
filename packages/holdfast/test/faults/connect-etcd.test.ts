import { afterAll, afterEach, beforeAll, expect, it } from 'vitest'
import { startEtcdServer } from '../../../cli/src/lab/servers/etcd.ts'
import { findFreePort } from '../../../cli/src/lab/servers/ports.ts'
import { connect } from '../../src/connect/connect.ts'
import type { ConnectOptions } from '../../src/connect/options.ts'
import type { Locks } from '../../src/core/lease.ts'
import { makeCertificates } from '../support/certificates.ts'
import { allKeys, type EtcdServer, etcdctl, startEtcd } from '../support/etcd.ts'

const SECRET = 'pass/word@1'
let server: EtcdServer
const ends: (() => unknown)[] = []

beforeAll(async () => {
  server = await startEtcd()
})

afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end()
})

afterAll(() => server?.stop())

async function open(url: string, options?: ConnectOptions): Promise<Locks> {
  const locks = await connect(url, options)
  ends.push(() => locks.close())
  return locks
}

it('a URL of etcd gives locks, with a prefix and a lease each where it says so', async () => {
  const url = `etcd://${server.endpoint}?keyPrefix=app%2F&leaseMode=own`
  const [ours, theirs] = [await open(url), await open(url)]
  const lease = await ours.acquire('a')
  expect(await theirs.tryAcquire('a')).toBeNull()
  const [key] = await allKeys([server.endpoint])
  expect(key?.key.toString()).toMatch(/^app\/a\/[0-9a-f]+\/[\w-]{22}$/)
  expect(lease.source).toMatch(/^etcd:[0-9]+:app\/$/)
  await lease.release()
  expect(await theirs.tryAcquire('a')).not.toBeNull()
})

it('a member that is not there is passed over', async () => {
  const dead = await findFreePort()
  const locks = await open(`etcd://127.0.0.1:${dead},${server.endpoint}`)
  await (await locks.acquire('a')).release()
})

it('where no member is there, connecting ends in its time', async () => {
  const dead = await findFreePort()
  const connecting = connect(`etcd://127.0.0.1:${dead}`, { connectTimeoutMs: 500 })
  await expect(connecting).rejects.toMatchObject({ code: 'BACKEND_UNAVAILABLE', why: 'down' })
  const controller = new AbortController()
  const reason = new Error('left')
  const aborted = connect(`etcd://127.0.0.1:${dead}`, { signal: controller.signal })
  controller.abort(reason)
  await expect(aborted).rejects.toBe(reason)
})

it('a user of the URL logs in, and a wrong password is told at once, without the password', async () => {
  const guarded = await startEtcd()
  ends.push(() => guarded.stop())
  await etcdctl(guarded, 'user', 'add', `root:${SECRET}`)
  await etcdctl(guarded, 'user', 'grant-role', 'root', 'root')
  await etcdctl(guarded, 'user', 'add', `shop:${SECRET}`)
  await etcdctl(guarded, 'user', 'grant-role', 'shop', 'root')
  await etcdctl(guarded, 'auth', 'enable')
  const locks = await open(`etcd://shop:${encodeURIComponent(SECRET)}@${guarded.endpoint}`)
  await (await locks.acquire('a')).release()
  const wrong = 'never-to-be-seen'
  const error = await connect(`etcd://${guarded.endpoint}`, {
    ...{ username: 'shop', password: wrong, connectTimeoutMs: 60_000 },
  }).catch((reason: Error) => reason)
  expect(error).toMatchObject({ code: 'BACKEND_UNAVAILABLE', why: 'no-permission' })
  expect(JSON.stringify(error) + (error as Error).stack).not.toContain(wrong)
})

it('etcd+tls: is encrypted, and believes nobody whom it does not know', async () => {
  const certificates = makeCertificates()
  ends.push(() => certificates.remove())
  const [port, peerPort, tlsPort] = [
    await findFreePort(),
    await findFreePort(),
    await findFreePort(),
  ]
  const [, , , cert = '', , key = ''] = certificates.argsFor(tlsPort)
  const ports = [port, peerPort]
  const urls = `http://127.0.0.1:${port},https://127.0.0.1:${tlsPort}`
  const guarded = await startEtcdServer(
    { args: ['--listen-client-urls', urls, '--cert-file', cert, '--key-file', key] },
    async () => ports.shift() ?? 0,
  )
  ends.push(() => guarded.stop())
  const { ca } = certificates
  const locks = await open(`etcd+tls://127.0.0.1:${tlsPort}`, { tls: { ca } })
  const lease = await locks.acquire('a')
  expect(lease.fencingToken).toBeGreaterThan(0n)
  const unknown = connect(`etcd+tls://127.0.0.1:${tlsPort}`, { connectTimeoutMs: 500 })
  await expect(unknown).rejects.toMatchObject({ code: 'BACKEND_UNAVAILABLE' })
})
