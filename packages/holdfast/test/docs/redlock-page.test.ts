/** What docs/backends/redlock.md says of costs and rights, counted and tried on real servers. */
import { Redis } from 'ioredis'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { codeBlocks } from '../../../../scripts/lib/snippets.mjs'
import { type RedisServer, startRedis } from '../../../cli/src/lab/servers/index.ts'
import { setOwnConnection } from '../../src/clients/own-connections.ts'
import type { Backend, Grant } from '../../src/core/backend.ts'
import { redlockBackend } from '../../src/redlock.ts'
import { granted, request } from '../../src/testkit/backend-harness.ts'
import { type FaultProxy, startProxy } from '../../src/testkit/proxy.ts'
import { openInspector, until } from '../support/redis.ts'
import { pageOf, tableUnder } from '../unit/docs/pages.ts'

const page = pageOf('docs/backends/redlock.md')
const OPTIONS = { onEmpty: 'fresh', nodeTimeoutMs: 10_000 } as const
/** As long as that of a container in a cluster usually is; the page says so. */
const HOLDER = { host: 'worker-7d4b9c6f5-x2x7q', pid: 4711 }

const servers: RedisServer[] = []
const proxies: FaultProxy[] = []
const inspectors: Redis[] = []
const clients: Redis[] = []
const backends: Backend[] = []

beforeAll(async () => {
  for (let node = 0; node < 3; node++) {
    const server = await startRedis()
    servers.push(server)
    proxies.push(await startProxy(server.port))
    inspectors.push(await openInspector(server.port))
  }
})

afterAll(async () => {
  for (const backend of backends) await backend.close()
  for (const client of [...clients, ...inspectors]) client.disconnect()
  for (const proxy of proxies) await proxy.close()
  for (const server of servers) await server.stop()
})

type Opening = Readonly<{ isOwn?: boolean; user?: object }>

async function open({ isOwn = false, user = {} }: Opening = {}): Promise<Backend> {
  const nodes: Record<string, { client: Redis; subscriber: false }> = {}
  for (const [node, { port }] of proxies.entries()) {
    const client = new Redis({ host: '127.0.0.1', port, ...user, enableOfflineQueue: false })
    client.on('error', () => undefined)
    clients.push(client)
    await until(() => client.status === 'ready', 'connected')
    const runId = /run_id:(\w+)/.exec((await inspectors[node]?.info('server')) ?? '')?.[1] ?? ''
    if (isOwn) setOwnConnection(client, { runId: () => runId })
    nodes['abc'[node] ?? ''] = { client, subscriber: false }
  }
  const backend = redlockBackend(nodes, OPTIONS)
  backends.push(backend)
  return backend
}

const named = (fields: object = {}) =>
  request('order:42', { ttlMs: 30_000, holder: HOLDER, ...fields })

type Act = (backend: Backend) => Promise<() => Promise<unknown>>
const held = async (backend: Backend): Promise<Grant> => {
  const grant = granted(await backend.tryAcquire(named()))
  await settled()
  return grant
}

const OPERATIONS: Readonly<Record<string, Act>> = {
  'acquire, granted': async (backend) => () => backend.tryAcquire(named()),
  'acquire, refused': async (backend) => {
    await held(backend)
    return () => backend.tryAcquire(named())
  },
  renewal: async (backend) => {
    const grant = await held(backend)
    return () => backend.renew(grant, 2 * grant.ttlMs)
  },
  release: async (backend) => {
    const grant = await held(backend)
    return () => backend.release(grant, 0)
  },
  'undo of an attempt': async (backend) => async () => backend.cancel('order:42', named().owner),
  'inspect, of a lock': async (backend) => {
    await held(backend)
    return () => backend.inspect('order:42')
  },
}

/** Until every node has answered what it was asked. */
async function settled(): Promise<void> {
  let before = ''
  await until(async () => {
    const counts = await Promise.all(inspectors.map(countsOf))
    const now = JSON.stringify(counts.map((names) => names.filter((name) => name !== 'INFO')))
    const isStill = now === before
    before = now
    await new Promise((resolve) => setTimeout(resolve, 30))
    return isStill
  }, 'the nodes are at rest')
}

/** Commands since RESETSTAT, those inside scripts included, without what the test itself sends. */
async function countsOf(inspector: Redis): Promise<string[]> {
  const stats = await inspector.info('commandstats')
  return [...stats.matchAll(/^cmdstat_([\w|]+):calls=(\d+)/gm)].flatMap(([, name = '', count]) => {
    const own = /^(?:config|flushall|hello|quit|ping|client)/.test(name)
    return own ? [] : Array.from({ length: Number(count) }, () => name.toUpperCase())
  })
}

/** @returns `requests, count: names` of each node; the INFO of the test itself taken out. */
async function costOf(backend: Backend, act: Act): Promise<{ seen: string; bytes: string }> {
  let last = { seen: '', bytes: '' }
  for (let round = 1; round <= 2; round++) {
    for (const inspector of inspectors) await inspector.del('lock:order:42')
    await settled()
    const run = await act(backend)
    await settled()
    const bytes = proxies.map(() => ({ toServer: 0, toClient: 0 }))
    for (const [node, proxy] of proxies.entries()) {
      proxy.onBytes = (direction, piece) => {
        const sum = bytes[node]
        if (sum !== undefined) sum[direction] += piece.byteLength
      }
    }
    const before = await Promise.all(inspectors.map(countsOf))
    await run()
    await new Promise((resolve) => setTimeout(resolve, 100))
    const after = await Promise.all(inspectors.map(countsOf))
    const seen = after.map((names, node) => {
      const rest = [...names]
      // The one INFO of the counting is in it as well.
      for (const name of [...(before[node] ?? []), 'INFO']) {
        const at = rest.indexOf(name)
        if (at >= 0) rest.splice(at, 1)
      }
      const sent = rest.filter((name) => name.startsWith('EVAL')).length
      const inside = rest.filter((name) => !name.startsWith('EVAL')).sort()
      return `${sent}, ${inside.length}: ${inside.join(', ')}`
    })
    expect(new Set(seen).size).toBe(1)
    last = {
      seen: seen[0] ?? '',
      bytes: `${bytes[0]?.toServer}, ${bytes[0]?.toClient}`,
    }
  }
  return last
}

// The accident: a page with figures from the drawing board, which nobody counted.
it('every operation sends to each node, and runs there, what the table says', async () => {
  const backend = await open()
  const own = await open({ isOwn: true })
  for (const one of [backend, own]) {
    await until(
      async () => (await one.tryAcquire(request('first')).catch(() => null)) !== null,
      'the nodes vote',
    )
  }
  // Whoever let them vote looks at them once more a moment later.
  await new Promise((resolve) => setTimeout(resolve, 3000))
  const rows = tableUnder(page, '## Costs')
  const found: string[][] = []
  for (const [operation, act] of Object.entries(OPERATIONS)) {
    const { seen, bytes } = await costOf(backend, act)
    const ours = await costOf(own, act)
    const [requests = '', ...inside] = seen.split(', ')
    found.push([
      operation,
      requests,
      inside.join(', '),
      ours.seen.split(', ').slice(1).join(', ').split(':')[0] ?? '',
      ...bytes.split(', '),
    ])
  }
  expect(rows).toEqual(found)
})

// The accident: a page lists too few rights, or none, and the missing one shows in the first failover.
it('the rights of the page are enough, and no locks come without INFO', async () => {
  const block = codeBlocks(page.text).find(({ language }) => language === 'acl')
  const rights = (block?.text ?? '').split(/\s+/).slice(2)
  const user = { username: 'locks', password: 'secret' }
  for (const inspector of inspectors) {
    await inspector.flushall()
    await inspector.script('FLUSH')
    await inspector.call('ACL', 'SETUSER', ...rights)
  }
  const backend = await open({ user })
  await backend.tryAcquire(request('first'))
  const grant = granted(await backend.tryAcquire(named()))
  expect((await backend.tryAcquire(named({ waits: true }))).kind).toBe('held')
  expect((await backend.renew(grant, 60_000)).kind).toBe('renewed')
  expect(await backend.proclaim(grant, 'value')).toBe('proclaimed')
  expect(await backend.inspect('order:42')).toMatchObject({ fencingToken: grant.fencingToken })
  const names: string[] = []
  for await (const { lockName } of backend.list('', 10)) names.push(lockName)
  expect(names).toContain('order:42')
  const { fencingToken } = grant
  const revoked = await backend.revoke(named(), { fencingToken, reason: 'test' })
  expect(revoked?.fencingToken).toBeGreaterThan(fencingToken)
  if (revoked !== null) expect(await backend.release(revoked, 0)).toBe('released')
  await backend.cancel('order:42', named().owner)
  await backend.raise('order:42', 2n ** 60n)
  const next = granted(await backend.tryAcquire(named()))
  expect(next.fencingToken).toBeGreaterThan(2n ** 60n)
  expect(await backend.release(next, 1000)).toBe('released')
  for (const inspector of inspectors) await inspector.call('ACL', 'SETUSER', 'locks', '-info')
  const refused = redlockBackend(
    Object.fromEntries(
      clients.slice(-3).map((client, node) => ['abc'[node], { client, subscriber: false }]),
    ),
    OPTIONS,
  )
  backends.push(refused)
  await expect(refused.tryAcquire(request('another'))).rejects.toMatchObject({
    why: 'no-permission',
  })
})
