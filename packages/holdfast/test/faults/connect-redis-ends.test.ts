import { afterAll, beforeAll, expect, it } from 'vitest'
import {
  type RedisCluster,
  type RedisServer,
  startRedis,
  startRedisCluster,
} from '../../../cli/src/lab/servers/index.ts'
import { connectWith } from '../../src/connect/connect.ts'
import type { Locks } from '../../src/core/lease.ts'
import { startProxy } from '../../src/testkit/proxy.ts'
import { connectionsAt, onlyDriver } from '../support/connect.ts'
import { CLIENT_NAMES, until } from '../support/redis.ts'

const USER = ['--user', 'shop', 'on', '>secret', '~*', '&*', '+@all']

let server: RedisServer
let cluster: RedisCluster

beforeAll(async () => {
  server = await startRedis({ args: USER })
  cluster = await startRedisCluster({ args: USER })
})

afterAll(async () => {
  await server?.stop()
  await cluster?.stop()
})

/** Connections of ours at any of the servers. */
async function ours(): Promise<number> {
  const ports = [server, ...cluster.nodes].map(({ port }) => port)
  const lines = (await Promise.all(ports.map((port) => connectionsAt(port)))).flat()
  return lines.filter((line) => line.includes('user=shop')).length
}

/** From the very call on until most of them have connected. */
const MOMENTS: readonly (() => Promise<unknown>)[] = [
  async () => undefined,
  ...[1, 3, 10, 30].map((count) => async () => {
    for (let left = count; left > 0; left -= 1) await Promise.resolve()
  }),
  () => new Promise((resolve) => setImmediate(resolve)),
  ...[1, 2, 4, 8, 16].map((ms) => () => new Promise((resolve) => setTimeout(resolve, ms))),
]

// The accident: a program that is told to stop while it starts never ends, because a connection that
// was being opened is used once it is open.
it.each(CLIENT_NAMES.flatMap((name) => [[name, 'redis'] as const, [name, 'cluster'] as const]))(
  '%s: an abort at any moment of connecting to a %s leaves nothing open',
  async (name, kind) => {
    const nodes = cluster.nodes.slice(0, 2).map(({ port }) => `127.0.0.1:${port}`)
    const url =
      kind === 'redis'
        ? `redis://shop:secret@127.0.0.1:${server.port}`
        : `redis+cluster://shop:secret@${nodes.join()}`
    for (const moment of MOMENTS) {
      const controller = new AbortController()
      const reason = new Error('no longer wanted')
      const opening = connectWith(onlyDriver(name), url, {
        signal: controller.signal,
        connectTimeoutMs: 60_000,
      }).then(
        (locks: Locks) => locks.close(),
        (error) => expect(error).toBe(reason),
      )
      await moment()
      controller.abort(reason)
      await opening
    }
    await until(async () => (await ours()) === 0, 'no connection is left')
  },
)

/** ioredis counts silence from when something was asked, node-redis from the last PING. */
const SILENCES = [
  ...CLIENT_NAMES.map((name) => [name, 'asked'] as const),
  ...CLIENT_NAMES.filter((name) => name.startsWith('node-redis')).map(
    (name) => [name, 'idle'] as const,
  ),
]

// The accidents: a network that is silent for a quarter of a minute while nobody asks for a lock, and
// no lock is to be had ever after: node-redis by itself gives such a connection up for good. And while
// locks are asked for it takes what it sends for life: it stays with a connection that is dead until
// the kernel has had enough of it.
it('a connection that was silent for too long is made again', async () => {
  await Promise.all(
    SILENCES.map(async ([name, kind]) => {
      const proxy = await startProxy(server.port)
      const url = `redis://shop:secret@127.0.0.1:${proxy.port}`
      const locks = await connectWith(onlyDriver(name), url)
      const lockName = `${name} ${kind}`
      try {
        const lost = new Promise((resolve) => locks.on('warning', resolve))
        proxy.hold('toServer')
        proxy.hold('toClient')
        // Undone in the background, again and again.
        if (kind === 'asked') await locks.tryAcquire(lockName).catch(() => undefined)
        await lost
        proxy.heal()
        await locks.using(lockName, { waitMs: 30_000 }, async (lease) => {
          expect(lease.isHeld).toBe(true)
        })
      } finally {
        await locks.close()
        await proxy.close()
      }
    }),
  )
  await until(async () => (await ours()) === 0, 'no connection is left')
})
