import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer, type Server } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import {
  type RedisCluster,
  type RedisSentinels,
  type RedisServer,
  startRedis,
  startRedisCluster,
  startRedisSentinels,
} from '../../../cli/src/lab/servers/index.ts'
import { findFreePort } from '../../../cli/src/lab/servers/ports.ts'
import { connectWith } from '../../src/connect/connect.ts'
import type { ConnectOptions } from '../../src/connect.ts'
import type { Warning } from '../../src/core/events.ts'
import type { Locks } from '../../src/core/lease.ts'
import { startProxy } from '../../src/testkit/proxy.ts'
import { type Certificates, makeCertificates } from '../support/certificates.ts'
import { connectionsAt, onlyDriver } from '../support/connect.ts'
import { CLIENT_NAMES, type ClientName, openInspector, until } from '../support/redis.ts'
import { TlsSentinel } from '../support/redis-tls-sentinel.ts'

const USER = ['--user', 'shop', 'on', '>p@ss/w:rd', '~shop:*', '&shop:*', '+@all']
const CREDENTIALS = 'shop:p%40ss%2Fw%3Ard@'

const ends: (() => unknown)[] = []
let folder: string
let certificates: Certificates
let tlsPort: number
let server: RedisServer

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'holdfast-connect-'))
  certificates = makeCertificates()
  tlsPort = await findFreePort()
  const socket = ['--unixsocket', join(folder, 'redis.sock'), '--unixsocketperm', '777']
  server = await startRedis({ args: [...USER, ...certificates.argsFor(tlsPort), ...socket] })
})

afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end()
})

afterAll(async () => {
  await server?.stop()
  certificates?.remove()
  rmSync(folder, { recursive: true, force: true })
})

async function open(name: ClientName, url: string, options?: ConnectOptions): Promise<Locks> {
  const locks = await connectWith(onlyDriver(name), url, options)
  ends.push(() => locks.close())
  return locks
}

/** Where the lock of a name lies: `db/key`. */
async function keysOfLocks(port: number): Promise<string[]> {
  const inspector = await openInspector(port)
  const found: string[] = []
  for (const db of [0, 3]) {
    await inspector.select(db)
    for (const key of await inspector.keys('*')) {
      if (!key.includes('#hf:')) found.push(`${db}/${key}`)
    }
    await inspector.flushdb()
  }
  inspector.disconnect()
  return found
}

async function untilAlone(port: number): Promise<void> {
  await until(async () => (await connectionsAt(port)).length === 0, 'no connection is left')
}

describe.each(CLIENT_NAMES)('%s', (name) => {
  const at = (): string => `127.0.0.1:${server.port}`
  const shop = { keyPrefix: 'shop:' }

  // The accidents: the database of the URL is forgotten, a password ends at its "@", the prefix is
  // the client's own and the counters of tokens lie elsewhere (B061).
  it.each<[title: string, url: () => string, options: () => ConnectOptions, key: string]>([
    ['plain', () => `redis://${at()}`, () => ({}), '0/lock:a'],
    ['a database', () => `redis://${at()}/3`, () => ({}), '3/lock:a'],
    [
      'a prefix in the URL',
      () => `redis://${at()}?keyPrefix=my%20locks:`,
      () => ({}),
      '0/my locks:a',
    ],
    ['a user', () => `redis://${CREDENTIALS}${at()}`, () => shop, '0/shop:a'],
    [
      'a user as options',
      () => `redis://${at()}/3`,
      () => ({ ...shop, username: 'shop', password: 'p@ss/w:rd' }),
      '3/shop:a',
    ],
    [
      'TLS',
      () => `rediss://${CREDENTIALS}127.0.0.1:${tlsPort}/3`,
      () => ({ ...shop, tls: { ca: certificates.ca } }),
      '3/shop:a',
    ],
    [
      'a socket',
      () => `redis+unix://${CREDENTIALS}${join(folder, 'redis.sock')}?db=3`,
      () => shop,
      '3/shop:a',
    ],
  ])(
    '%s: a lock is held where the URL says, and nothing stays open',
    async (_, url, options, key) => {
      const locks = await open(name, url(), options())
      const lease = await locks.acquire('a', { ttlMs: 10_000 })
      const other = await open(name, url(), options())
      const waiting = other.acquire('a', { waitMs: 20_000 })
      // Who waits for another process has a second connection, for push.
      await until(async () => (await connectionsAt(server.port)).length === 3, 'three connections')
      await lease.release()
      const next = await waiting
      expect(next.fencingToken).toBeGreaterThan(lease.fencingToken)
      expect(await keysOfLocks(server.port)).toEqual([key])
      await Promise.all([locks.close(), other.close()])
      await untilAlone(server.port)
    },
  )

  it('the server sees no option that keeps requests back, and no warning comes', async () => {
    const warnings: Warning[] = []
    const locks = await open(name, `redis://${at()}`)
    locks.on('warning', (warning) => warnings.push(warning))
    await locks.using('a', async () => undefined)
    expect(warnings).toEqual([])
  })

  // The accident: the lock service comes up a second after the application, which has given up.
  it('waits for a server that is not there yet', async () => {
    const port = await findFreePort()
    const opening = open(name, `redis://127.0.0.1:${port}`, { connectTimeoutMs: 60_000 })
    const late = await startRedis({ port })
    ends.unshift(() => late.stop())
    const locks = await opening
    await locks.using('a', async () => undefined)
  })

  // B043: what was opened before the failure stays open.
  it.each<[what: string, url: () => string, message: RegExp]>([
    ['nobody listens', () => 'redis://127.0.0.1:1', /within 1000 ms: the connection was refused/],
    [
      'no Sentinel',
      () => 'redis+sentinel://127.0.0.1:1/m',
      /"m" of the Sentinels at 127\.0\.0\.1:1 /,
    ],
    ['no cluster', () => 'redis+cluster://127.0.0.1:1', /no connection to the Redis Cluster at /],
    ['no socket', () => 'redis+unix:///nowhere.sock', /there is no such socket/],
    ['a wrong database', () => `redis://${at()}/77`, /: the server has no such database/],
    [
      'one that is no cluster',
      () => `redis+cluster://${at()}`,
      /: the server is not part of a cluster/,
    ],
    [
      'a stranger by TLS',
      () => `rediss://127.0.0.1:${tlsPort}`,
      /: the certificate of the server is not/,
    ],
  ])('%s: says why, and leaves nothing open', async (what, url, message) => {
    // What no second try can change is told at once, however long there was to try.
    const connectTimeoutMs = what.startsWith('n') ? 1000 : 300_000
    const error = await open(name, url(), { connectTimeoutMs }).catch((reason) => reason)
    expect(error).toMatchObject({
      code: 'BACKEND_UNAVAILABLE',
      message: expect.stringMatching(message),
    })
    await untilAlone(server.port)
  })

  // The accident: without a password to send, node-redis is ready before the server has been asked, and
  // the first lock fails in place of the start. A user who may not PING is a user all the same.
  it('a password that is missing or wrong is told at once, a right that PING lacks is not missed', async () => {
    const shy = ['--user', 'shy', 'on', '>secret', '~*', '&*', '+@all', '-ping', '-info']
    const closed = await startRedis({ args: ['--requirepass', 'secret', ...shy] })
    ends.unshift(() => closed.stop())
    for (const [who, words] of [
      ['', 'the server asks for a password'],
      [':wrong@', 'does not accept this name and password'],
    ] as const) {
      const url = `redis://${who}127.0.0.1:${closed.port}`
      const error = await open(name, url, { connectTimeoutMs: 300_000 }).catch((reason) => reason)
      expect(error).toMatchObject({ why: 'no-permission', message: expect.stringContaining(words) })
    }
    for (const who of [':secret@', 'shy:secret@']) {
      const locks = await open(name, `redis://${who}127.0.0.1:${closed.port}`)
      await locks.using('a', async () => undefined)
    }
  })

  // The accident: a server that takes connections and says nothing hangs the start of a program.
  it('a silent server: gives up in time, and so does an abort', async () => {
    const silent = await listenSilently()
    const { port } = silent.address() as { port: number }
    for (const url of [`redis://127.0.0.1:${port}`, `redis+sentinel://127.0.0.1:${port}/m`]) {
      await expect(open(name, url, { connectTimeoutMs: 300 })).rejects.toMatchObject({
        why: 'down',
        message: expect.stringContaining('within 300 ms'),
      })
      const reason = new Error('no longer wanted')
      const controller = new AbortController()
      const opening = open(name, url, { connectTimeoutMs: 60_000, signal: controller.signal })
      controller.abort(reason)
      await expect(opening).rejects.toBe(reason)
    }
    const count = (): Promise<number> =>
      new Promise((resolve) => silent.getConnections((_, open) => resolve(open)))
    await until(async () => (await count()) === 0, 'no connection is left')
  })

  // The accidents: an 'error' event without a listener ends the process (B032), or nobody ever hears why
  // locks are refused.
  it('goes on by itself after an outage, and warns of it once', async () => {
    const own = await startRedis()
    const proxy = await startProxy(own.port)
    ends.push(
      () => own.stop(),
      () => proxy.close(),
    )
    const warnings: Warning[] = []
    const locks = await open(name, `redis://127.0.0.1:${proxy.port}`)
    locks.on('warning', (warning) => warnings.push(warning))
    await locks.using('a', async () => undefined)
    proxy.isRefusing = true
    proxy.reset()
    await until(() => warnings.length > 0, 'a warning')
    await expect(locks.tryAcquire('a')).rejects.toMatchObject({ code: 'BACKEND_UNAVAILABLE' })
    proxy.isRefusing = false
    await locks.using('a', { waitMs: 30_000 }, async () => undefined)
    expect(new Set(warnings.map(({ code }) => code))).toEqual(new Set(['connection']))
    const advices = warnings.map(({ advice }) => advice)
    expect(new Set(advices).size).toBe(advices.length)
    expect(advices.join()).toContain(`Redis at 127.0.0.1:${proxy.port}`)
  })
})

async function listenSilently(): Promise<Server> {
  const sockets = new Set<{ destroy(): void }>()
  const silent = createServer((socket) => {
    socket.on('error', () => undefined)
    // Or it would not notice that the other side has ended it.
    socket.resume()
    sockets.add(socket)
  })
  silent.listen(0, '127.0.0.1')
  await once(silent, 'listening')
  ends.push(() => {
    for (const socket of sockets) socket.destroy()
    silent.close()
  })
  return silent
}

describe('Sentinels and clusters', () => {
  const user = ['--user', 'shop', 'on', '>secret', '~*', '&*', '+@all']
  let group: RedisSentinels
  let cluster: RedisCluster

  beforeAll(async () => {
    group = await startRedisSentinels({ args: user })
    cluster = await startRedisCluster({ args: user })
    for (const { port } of group.sentinels) {
      const sentinel = await openInspector(port)
      await sentinel.call(
        'ACL',
        'SETUSER',
        'watcher',
        'on',
        '>hidden',
        '+@all',
        'allkeys',
        'allchannels',
      )
      sentinel.disconnect()
    }
  })

  afterAll(async () => {
    await group?.stop()
    await cluster?.stop()
  })

  const listed = (servers: readonly { port: number }[]): string =>
    servers.map(({ port }) => `127.0.0.1:${port}`).join()

  it.each(CLIENT_NAMES)('%s by Sentinels, to the database of the URL', async (name) => {
    const url = `redis+sentinel://shop:secret@${listed(group.sentinels)}/${group.groupName}/3`
    const query = '?sentinelUsername=watcher&sentinelPassword=hidden'
    const locks = await open(name, url + query)
    const lease = await locks.acquire('a')
    const { port } = await group.primary()
    expect(await keysOfLocks(port)).toEqual(['3/lock:a'])
    expect((await connectionsAt(port)).filter((line) => line.includes('user=shop'))).not.toEqual([])
    await lease.release()
    await locks.close()
    for (const node of group.nodes) {
      const ours = async (): Promise<string[]> =>
        (await connectionsAt(node.port)).filter((line) => line.includes('user=shop'))
      await until(async () => (await ours()).length === 0, 'no connection is left')
    }
    const wrong = open(name, `${url}${query}er`, { connectTimeoutMs: 60_000 })
    await expect(wrong).rejects.toMatchObject({ why: 'no-permission' })
    const unknown = url.replace(`/${group.groupName}/`, '/unheard/')
    await expect(open(name, unknown, { connectTimeoutMs: 500 })).rejects.toMatchObject({
      message: expect.stringContaining('the primary "unheard" of the Sentinels'),
    })
  })

  it.each(CLIENT_NAMES)('%s in a cluster, over all of its nodes', async (name) => {
    const url = `redis+cluster://shop:secret@${listed(cluster.nodes.slice(0, 2))}`
    const locks = await open(name, url)
    const leases = await Promise.all(['a', 'b', 'c', 'd', 'e'].map((one) => locks.acquire(one)))
    expect(locks.capabilities.scope).toBe('network')
    for (const lease of leases) await lease.release()
    await locks.close()
    for (const { port } of cluster.nodes) {
      const ours = async (): Promise<string[]> =>
        (await connectionsAt(port)).filter((line) => line.includes('user=shop'))
      await until(async () => (await ours()).length === 0, 'no connection is left')
    }
  })

  it.each(CLIENT_NAMES)('%s by a Sentinel, TLS to it and to the primary', async (name) => {
    const sentinel = await TlsSentinel.start(certificates, tlsPort)
    ends.push(() => sentinel.stop())
    const url = `rediss+sentinel://${CREDENTIALS}127.0.0.1:${sentinel.tlsPort}/locks/3`
    const tls = { ca: certificates.ca }
    const locks = await open(name, url, { tls, keyPrefix: 'shop:', connectTimeoutMs: 30_000 })
    await locks.acquire('a')
    expect(await keysOfLocks(server.port)).toEqual(['3/shop:a'])
    await locks.close()
    // ioredis keeps to itself what a Sentinel failed with.
    const [why, connectTimeoutMs] = name.startsWith('ioredis')
      ? ['no Sentinel was reached', 1500]
      : ['is not trusted', 60_000]
    await expect(open(name, url, { connectTimeoutMs })).rejects.toMatchObject({
      message: expect.stringContaining(why),
    })
  })

  // One node that has all slots: a cluster of six would need six ports of TLS.
  it.each(CLIENT_NAMES)('%s in a cluster by TLS', async (name) => {
    // Its bus listens 10,000 above.
    const port = await findFreePort(10_000)
    const args = [...certificates.argsFor(port), '--cluster-enabled', 'yes', '--tls-cluster', 'yes']
    // A node that has met no other does not know its own address.
    args.push('--cluster-announce-ip', '127.0.0.1')
    const node = await startRedis({ args })
    ends.push(() => node.stop())
    const inspector = await openInspector(node.port)
    await inspector.call('CLUSTER', 'ADDSLOTSRANGE', 0, 16_383)
    await until(async () => /state:ok/.test(String(await inspector.cluster('INFO'))), 'it serves')
    inspector.disconnect()
    const tls = { ca: certificates.ca }
    const locks = await open(name, `rediss+cluster://127.0.0.1:${port}`, { tls })
    await locks.using('a', async (lease) => expect(lease.isHeld).toBe(true))
    await locks.close()
  })
})
