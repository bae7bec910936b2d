import { type AddressInfo, createServer } from 'node:net'
import { afterAll, afterEach, beforeAll, expect, it } from 'vitest'
import { startEtcdServer } from '../../../cli/src/lab/servers/etcd.ts'
import { findFreePort } from '../../../cli/src/lab/servers/ports.ts'
import { etcdBackend } from '../../src/backends/etcd/etcd-backend.ts'
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
  await expect(connecting).rejects.toMatchObject({
    ...{ code: 'BACKEND_UNAVAILABLE', why: 'down' },
    message: `no connection to etcd at 127.0.0.1:${dead} within 500 ms: the connection was refused (down)`,
    cause: { message: expect.stringContaining(`ECONNREFUSED 127.0.0.1:${dead}`) },
  })
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

/** One that serves TLS at 127.0.0.1 and 127.0.0.2, and plain text beside it. */
async function startTls(cert: string, key: string): Promise<{ server: EtcdServer; port: number }> {
  const [port, peerPort, tlsPort] = [
    await findFreePort(),
    await findFreePort(),
    await findFreePort(),
  ]
  const ports = [port, peerPort]
  const addresses = ['http://127.0.0.1', 'https://127.0.0.1', 'https://127.0.0.2']
  const urls = addresses.map((one, index) => `${one}:${index === 0 ? port : tlsPort}`).join(',')
  const guarded = await startEtcdServer(
    { args: ['--listen-client-urls', urls, '--cert-file', cert, '--key-file', key] },
    async () => ports.shift() ?? 0,
  )
  ends.push(() => guarded.stop())
  return { server: guarded, port: tlsPort }
}

function refusedBy(url: string, options?: ConnectOptions): Promise<Error> {
  const connecting = connect(url, { username: 'shop', password: SECRET, ...options })
  return connecting.then(
    async (locks) => {
      await locks.close()
      throw new Error('it was let in')
    },
    (reason: Error) => reason,
  )
}

// "There is no connection to it" was all that was said, after five seconds, of certificates too.
it('etcd+tls: is encrypted, and a server that is not believed is told at once, and why', async () => {
  const warned: string[] = []
  const onWarning = (warning: Error & { code?: string }): unknown => warned.push(`${warning.code}`)
  process.on('warning', onWarning)
  ends.push(() => process.off('warning', onWarning))
  const certificates = makeCertificates()
  ends.push(() => certificates.remove())
  const [, , , cert = '', , key = ''] = certificates.argsFor(0)
  const { server: guarded, port } = await startTls(cert, key)
  const alone = await startTls(certificates.selfSigned.cert, certificates.selfSigned.key)
  const { ca } = certificates
  const locks = await open(`etcd+tls://127.0.0.1:${port}`, { tls: { ca } })
  expect((await locks.acquire('a')).fencingToken).toBeGreaterThan(0n)

  const notTrusted = 'the certificate of the server is not trusted: it is'
  const rows: [url: string, tls: { ca?: string }, words: string][] = [
    [`etcd+tls://127.0.0.1:${port}`, {}, `${notTrusted} of an unknown authority`],
    [`etcd+tls://127.0.0.1:${alone.port}`, {}, `${notTrusted} self-signed`],
    [`etcd+tls://127.0.0.2:${port}`, { ca }, `${notTrusted} for another name`],
  ]
  for (const [url, tls, words] of rows) {
    const error = await refusedBy(url, { tls, connectTimeoutMs: 60_000 })
    expect(error).toMatchObject({ code: 'BACKEND_UNAVAILABLE', why: 'down' })
    const { host } = new URL(url.replace('etcd+tls', 'http'))
    expect(error.message).toBe(`no connection to etcd at ${host}: ${words} (down)`)
    expect(JSON.stringify(error) + error.stack).not.toContain(SECRET)
  }
  const talker = createServer((socket) => socket.on('error', () => undefined).end('220 hello\r\n'))
  ends.push(() => talker.close())
  const talks = await new Promise<number>((resolve) => {
    talker.listen(0, '127.0.0.1', () => resolve((talker.address() as AddressInfo).port))
  })
  const told = await refusedBy(`etcd+tls://127.0.0.1:${talks}`, { connectTimeoutMs: 60_000 })
  expect(told.message).toContain(`127.0.0.1:${talks}: the server does not speak TLS there`)
  // It may be starting, behind something that listens for it already.
  const brief = { connectTimeoutMs: 1000 }
  const plain = await refusedBy(`etcd://127.0.0.1:${port}`, brief)
  const ended = 'within 1000 ms: the server ended the connection; it may'
  expect(plain.message).toBe(`no connection to etcd at 127.0.0.1:${port} ${ended} want TLS (down)`)
  const other = await refusedBy(`etcd+tls://${guarded.endpoint}`, { ...brief, tls: { ca } })
  expect(other.message).toBe(
    `no connection to etcd at ${guarded.endpoint} ${ended} not speak TLS (down)`,
  )
  expect(warned).not.toContain('DEP0123')
})

it('an authority that is no certificate is refused, whichever store it is for', async () => {
  const tls = { ca: 'no certificate' }
  for (const scheme of ['etcd+tls', 'rediss', 'redlock+tls']) {
    const hosts = scheme === 'redlock+tls' ? '127.0.0.1:1,127.0.0.1:2,127.0.0.1:3' : '127.0.0.1:1'
    const refused = connect(`${scheme}://${hosts}`, { tls })
    await expect(refused).rejects.toMatchObject({ code: 'INVALID_ARGUMENT', option: 'tls.ca' })
  }
  const bytes = { endpoints: ['127.0.0.1:1'], tls: { ca: Buffer.from(tls.ca) } }
  expect(() => etcdBackend(bytes)).toThrow('tls.ca')
})
