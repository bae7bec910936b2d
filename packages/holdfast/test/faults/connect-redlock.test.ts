import { inspect } from 'node:util'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { type RedisServer, startRedis } from '../../../cli/src/lab/servers/index.ts'
import { findFreePort } from '../../../cli/src/lab/servers/ports.ts'
import { connectWith } from '../../src/connect/connect.ts'
import type { ConnectOptions } from '../../src/connect.ts'
import type { Warning } from '../../src/core/events.ts'
import type { Locks } from '../../src/core/lease.ts'
import { createLocks } from '../../src/lock/lock.ts'
import { type RedlockNode, redlockBackend } from '../../src/redlock.ts'
import { type FaultProxy, startProxy } from '../../src/testkit/proxy.ts'
import { type Certificates, makeCertificates } from '../support/certificates.ts'
import { connectionsAt, onlyDriver } from '../support/connect.ts'
import {
  CLIENT_NAMES,
  type ClientName,
  openClient,
  openInspector,
  until,
} from '../support/redis.ts'

const SECRET = 'kanarie 4711/ü'
const USER = ['--user', 'shop', 'on', `>${SECRET}`, '~*', '&*', '+@all']
const SHOP = { username: 'shop', password: SECRET }
const CLOSED = { args: ['--requirepass', SECRET] }
const FRESH = { onEmpty: 'fresh', maxTtlMs: 30_000 } as const

const servers: RedisServer[] = []
const proxies: FaultProxy[] = []
const tlsPorts: number[] = []
const ends: (() => unknown)[] = []
let certificates: Certificates

beforeAll(async () => {
  certificates = makeCertificates()
  for (let node = 0; node < 3; node++) {
    const tlsPort = await findFreePort()
    const server = await startRedis({ args: [...USER, ...certificates.argsFor(tlsPort)] })
    servers.push(server)
    tlsPorts.push(tlsPort)
    proxies.push(await startProxy(server.port))
  }
})

afterEach(async () => {
  for (const server of servers) server.thaw()
  for (const proxy of proxies) {
    proxy.isRefusing = false
    proxy.heal()
    proxy.reset()
  }
  for (const end of ends.splice(0).reverse()) await end()
  for (const { port } of servers) {
    const inspector = await openInspector(port)
    await inspector.flushall()
    inspector.disconnect()
  }
})

afterAll(async () => {
  for (const proxy of proxies) await proxy.close()
  for (const server of servers) await server.stop()
  certificates?.remove()
})

const hosts = (ports: readonly number[]): string =>
  ports.map((port) => `127.0.0.1:${port}`).join(',')
const portsOf = (ones: readonly { port: number }[]): number[] => ones.map(({ port }) => port)

async function open(name: ClientName, url: string, options?: ConnectOptions): Promise<Locks> {
  const locks = await connectWith(onlyDriver(name), url, { ...FRESH, ...options })
  ends.push(() => locks.close())
  return locks
}

function failureOf(opening: Promise<Locks>): Promise<Error & { why?: string }> {
  return opening.then(
    () => Promise.reject(new Error('connected')),
    (error) => error,
  )
}

/** How many nodes have the lock, in the database. */
async function countOf(key: string, db = 0): Promise<number> {
  let count = 0
  for (const { port } of servers) {
    const inspector = await openInspector(port)
    await inspector.select(db)
    count += await inspector.exists(key)
    inspector.disconnect()
  }
  return count
}

const untilAlone = (port: number): Promise<void> =>
  until(async () => (await connectionsAt(port)).length === 0, 'no connection is left')

describe.each(CLIENT_NAMES)('%s', (name) => {
  // The accidents: the password or the database reaches one of the nodes alone.
  it.each<[title: string, url: () => string, options: ConnectOptions, key: string, db: number]>([
    ['plain', () => `redlock://${hosts(portsOf(servers))}`, {}, 'lock:a', 0],
    [
      'a user, a database and options in the URL',
      () =>
        `redlock://shop:${encodeURIComponent(SECRET)}@${hosts(portsOf(servers))}/3` +
        '?keyPrefix=my:&maxTtlMs=20000&nodeTimeoutMs=100',
      { maxTtlMs: undefined, ttlMs: 10_000 },
      'my:a',
      3,
    ],
    ['a user as options', () => `redlock://${hosts(portsOf(servers))}`, SHOP, 'lock:a', 0],
    ['TLS', () => `redlock+tls://${hosts(tlsPorts)}`, SHOP, 'lock:a', 0],
  ])(
    '%s: all nodes have the lock, push works, nothing stays open',
    async (_, url, given, key, db) => {
      const options = url().startsWith('redlock+tls')
        ? { ...given, tls: { ca: certificates.ca } }
        : given
      const locks = await open(name, url(), options)
      const warnings: Warning[] = []
      locks.on('warning', (warning) => warnings.push(warning))
      const lease = await locks.acquire('a', { ttlMs: 10_000 })
      await until(async () => (await countOf(key, db)) === 3, 'all nodes have it')
      const other = await open(name, url(), options)
      const waiting = other.acquire('a', { waitMs: 20_000 })
      await until(
        async () => (await connectionsAt(servers[0]?.port ?? 0)).length === 3,
        'whoever waits has a second connection',
      )
      await lease.release()
      expect((await waiting).fencingToken).toBeGreaterThan(lease.fencingToken)
      expect(locks.capabilities).toMatchObject({ fencing: 'quorum', wakeUp: 'push' })
      expect(warnings).toEqual([])
      await Promise.all([locks.close(), other.close()])
      for (const { port } of servers) await untilAlone(port)
    },
  )

  // The accident: one dead node of three, and no program starts any more.
  it('comes up without a minority, says which and why, and that node votes once it is there', async () => {
    const port = await findFreePort()
    const ports = [...portsOf(servers.slice(0, 2)), port]
    const warnings: Warning[] = []
    const locks = await open(name, `redlock://${hosts(ports)}`, {
      ...{ onEmpty: 'wait', maxTtlMs: 100, ttlMs: 100 },
    })
    locks.on('warning', (warning) => warnings.push(warning))
    await until(() => warnings.some(({ code }) => code === 'connection'), 'the warning')
    expect(warnings.map(({ advice }) => advice).join()).toMatch(
      `look at the connection to node "127.0.0.1:${port}": the connection was refused; it is made again by itself, and it has no vote meanwhile`,
    )
    const late = await startRedis({ port })
    ends.push(() => late.stop())
    const inspector = await openInspector(port)
    ends.push(() => inspector.disconnect())
    await until(async () => {
      await locks.tryAcquire('a', { ttlMs: 100 }).catch(() => null)
      return (await inspector.exists('lock:#hf:token:{00}')) === 1
    }, 'the late node is let in')
  })

  it('a minority that hangs costs half a second, a wrong password of all no time at all', async () => {
    const url = `redlock://${hosts(portsOf(proxies))}`
    // A prefix that nobody has used needs all nodes once.
    const first = await open(name, url)
    await first.using('a', async () => undefined)
    proxies[2]?.hold('toClient')
    const startMs = performance.now()
    const locks = await open(name, url, { connectTimeoutMs: 30_000 })
    expect(performance.now() - startMs).toBeLessThan(10_000)
    await locks.using('a', async () => undefined)
    const wrong = { ...SHOP, password: 'kanarie wrong', connectTimeoutMs: 60_000 }
    const error = await failureOf(open(name, url, wrong))
    expect(error).toMatchObject({ code: 'BACKEND_UNAVAILABLE', why: 'no-permission' })
    expect(inspect(error, { depth: 10, showHidden: true })).not.toContain('kanarie')
  })

  // Without a password to send, node-redis is ready before a node has been asked.
  it('nodes that ask for a password count as missing: one is none the worse, two are told at once', async () => {
    const closed = [await startRedis(CLOSED), await startRedis(CLOSED)]
    for (const one of closed) ends.push(() => one.stop())
    const [first, second] = portsOf(closed) as [number, number]
    const [a, b] = portsOf(servers) as [number, number]
    const error = await failureOf(
      open(name, `redlock://${hosts([a, first, second])}`, { connectTimeoutMs: 60_000 }),
    )
    expect(error).toMatchObject({ code: 'BACKEND_UNAVAILABLE', why: 'no-permission' })
    expect(error.message).toContain(`"127.0.0.1:${first}": the server asks for a password`)
    await open(name, `redlock://${hosts([a, b, first])}`, { connectTimeoutMs: 60_000 })
  })

  it('without a quorum the error has the reason of each node, and nothing stays open', async () => {
    const [dead, gone] = [await findFreePort(), await findFreePort()]
    const url = `redlock://shop:${encodeURIComponent(SECRET)}@127.0.0.1:${servers[0]?.port},localhost:${dead},127.0.0.1:${gone}`
    const error = await failureOf(open(name, url, { connectTimeoutMs: 700 }))
    expect(error).toMatchObject({ code: 'BACKEND_UNAVAILABLE', why: 'down' })
    expect(error.message).toContain(
      `no connection to enough nodes within 700 ms, 2 of 3 are needed: ` +
        `"localhost:${dead}": the connection was refused; "127.0.0.1:${gone}": the connection was refused`,
    )
    expect(inspect(error, { depth: 10, showHidden: true })).not.toContain('kanarie')
    await untilAlone(servers[0]?.port ?? 0)
  })

  it('an abort ends the connecting with its reason', async () => {
    for (const proxy of proxies) proxy.hold('toClient')
    const url = `redlock://${hosts(portsOf(proxies))}`
    const reason = new Error('enough')
    const opening = open(name, url, { signal: AbortSignal.any([AbortSignal.abort(reason)]) })
    expect(await failureOf(opening)).toBe(reason)
    const later = new AbortController()
    const waiting = failureOf(open(name, url, { signal: later.signal }))
    await until(() => proxies.every(({ connectionCount }) => connectionCount > 0), 'connected')
    later.abort(reason)
    expect(await waiting).toBe(reason)
    for (const { port } of servers) await untilAlone(port)
  })

  // The accident: a node behind a router that forgot the connection is away for a quarter of an hour.
  it('a connection that leads nowhere is made again soon, though nobody asks anything', async () => {
    const warnings: Warning[] = []
    const locks = await open(name, `redlock://${hosts(portsOf(proxies))}`)
    locks.on('warning', (warning) => warnings.push(warning))
    await locks.using('a', async () => undefined)
    const before = proxies[1]?.acceptedCount ?? 0
    proxies[1]?.drop('toClient')
    await until(() => (proxies[1]?.acceptedCount ?? 0) > before, 'a new connection')
    proxies[1]?.heal()
    expect(warnings.map(({ code }) => code)).toEqual(['connection'])
    await until(async () => {
      await locks.using('b', async () => undefined)
      const lease = await locks.acquire('c', { ttlMs: 5000 })
      const count = await countOf('lock:c')
      await lease.release()
      return count === 3
    }, 'all three have the lock')
  })

  it('a block of the event loop ends no connection', async () => {
    const locks = await open(name, `redlock://${hosts(portsOf(proxies))}`)
    const before = proxies.map(({ acceptedCount }) => acceptedCount)
    for (let round = 0; round < 3; round++) {
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 3400)
      await locks.using('a', async () => undefined)
    }
    expect(proxies.map(({ acceptedCount }) => acceptedCount)).toEqual(before)
  })
})

// The accident: two ways to name one set of nodes, and programs that do not exclude each other.
it('the nodes are named host:port, as for clients of your own', async () => {
  const ports = portsOf(servers)
  const locks = await open(
    'ioredis 6',
    `redlock://${hosts(ports).replaceAll('127.0.0.1', 'LOCALHOST')}`,
  )
  const lease = await locks.acquire('a', { ttlMs: 10_000 })
  const nodes: Record<string, RedlockNode> = {}
  for (const port of ports) {
    const { client, end } = await openClient('ioredis 6', port)
    ends.push(end)
    nodes[`localhost:${port}`] = client
  }
  const own = createLocks(redlockBackend(nodes, FRESH))
  ends.push(() => own.close())
  expect(await own.tryAcquire('a')).toBeNull()
  await lease.release()
  expect(await own.tryAcquire('a')).not.toBeNull()
})

it('ends the process that closes it', async () => {
  const locks = await open('ioredis 6', `redlock://${hosts(portsOf(servers))}`)
  const lease = await locks.acquire('a', { ttlMs: 10_000 })
  servers[0]?.freeze()
  await locks.close()
  expect(lease.isHeld).toBe(false)
  for (const { port } of servers.slice(1)) await untilAlone(port)
})
