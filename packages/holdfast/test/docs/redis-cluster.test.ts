import { Cluster, Redis } from 'ioredis'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { codeBlocks } from '../../../../scripts/lib/snippets.mjs'
import {
  type RedisCluster,
  startRedis,
  startRedisCluster,
} from '../../../cli/src/lab/servers/index.ts'
import { createLocks } from '../../src/lock/lock.ts'
import { redisBackend } from '../../src/redis.ts'
import { acquired, LONG_MS, request } from '../../src/testkit/backend-harness.ts'
import { slotOf } from '../../src/wire/slots.ts'
import { CLIENT_NAMES, type ClientName, openInspector, until } from '../support/redis.ts'
import { openClusterClient, SlotMove } from '../support/redis-cluster.ts'
import { pageOf } from '../unit/docs/pages.ts'

// The accident: a client of one node of a cluster works for some names and not for others. It is
// refused for all, in words, as docs/backends/redis.md says.
it('a client of one node is refused by a cluster, and writes nothing to it', async () => {
  const server = await startRedis({ args: ['--cluster-enabled', 'yes'] })
  onTestFinished(() => server.stop())
  const inspector = await openInspector(server.port)
  await inspector.cluster('ADDSLOTSRANGE', 0, 16_383)
  const isServing = async (): Promise<boolean> =>
    String(await inspector.cluster('INFO')).includes('cluster_state:ok')
  await until(isServing, 'one node serves all slots')

  const client = new Redis(server.port, '127.0.0.1')
  const locks = createLocks(redisBackend(client))
  for (const lockName of ['a', 'wallet:42', '{tag}', 'report:daily']) {
    await expect(locks.tryAcquire(lockName)).rejects.toMatchObject({
      code: 'BACKEND_UNAVAILABLE',
      why: 'down',
      message: expect.stringContaining('cluster'),
    })
  }
  expect(await inspector.dbsize()).toBe(0)
  await locks.close()
  client.disconnect()
  inspector.disconnect()
})

describe('the rights in a cluster', () => {
  const page = pageOf('docs/backends/redis.md')
  const USER = { username: 'locks', password: 'secret' }
  const [base = [], rights = []]: string[][] = codeBlocks(page.text)
    .filter(({ language }) => language === 'acl')
    .map(({ text }) => text.trim().split(/\s+/))
  let cluster: RedisCluster
  let names = 0

  beforeAll(async () => {
    cluster = await startRedisCluster()
  })

  afterAll(() => cluster.stop())

  /** The user of the page, as of now with the rights of the page but one. */
  async function allowAllBut(left: string | null): Promise<void> {
    for (const { port } of cluster.nodes) {
      const node = await openInspector(port)
      await node.call('ACL', 'DELUSER', 'locks')
      await node.call('ACL', ...base.slice(1), ...rights.filter((right) => right !== left))
      node.disconnect()
    }
  }

  /** A lock is held while its key goes to another node; says whether its renewal went after it. */
  async function followsMove(name: ClientName): Promise<boolean> {
    const { client, end } = await openClusterClient(name, cluster, USER)
    const backend = redisBackend(client)
    const lockName = `moved:${names++}`
    const grant = await acquired(backend, lockName)
    expect((await backend.tryAcquire(request(lockName, { waits: true }))).kind).toBe('held')
    const listed: string[] = []
    for await (const lock of backend.list(lockName, 10)) listed.push(lock.lockName)
    expect(listed).toEqual([lockName])
    const slot = slotOf(`lock:${lockName}`)
    const from = Math.floor((3 * slot) / 16_384)
    const move = await SlotMove.begin(cluster, slot, from, (from + 1) % 3)
    try {
      await move.moveKeys(`lock:${lockName}`)
      const renewed = await backend.renew(grant, LONG_MS).catch(() => null)
      return renewed?.kind === 'renewed'
    } finally {
      await move.end()
      await backend.close()
      end()
    }
  }

  // The accident: locks work until the day on which a slot is moved, or a node is added.
  it('are enough, also while a slot moves, and +asking is needed for that', async () => {
    expect(rights).toEqual(['+cluster|slots', '+cluster|info', '+asking'])
    await allowAllBut(null)
    for (const name of CLIENT_NAMES) expect(await followsMove(name)).toBe(true)
    await allowAllBut('+asking')
    // ioredis leaves the refusal to the process, which would end.
    for (const name of ['node-redis 5', 'node-redis 6'] as const) {
      expect(await followsMove(name)).toBe(false)
    }
  })

  it('to ask for the nodes and for the state are needed to connect', async () => {
    await allowAllBut('+cluster|slots')
    await expect(openClusterClient('node-redis 6', cluster, USER)).rejects.toThrow()
    await allowAllBut('+cluster|info')
    const nodes = cluster.nodes.map(({ port }) => ({ host: '127.0.0.1', port }))
    const client = new Cluster(nodes, { redisOptions: USER, lazyConnect: true })
    client.on('error', () => undefined)
    onTestFinished(() => client.disconnect())
    let reconnects = 0
    client.on('reconnecting', () => (reconnects += 1))
    client.connect().catch(() => undefined)
    await until(() => reconnects > 2, 'it tries again and again')
    expect(client.status).not.toBe('ready')
  })
})
