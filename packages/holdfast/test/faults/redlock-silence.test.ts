import { setTimeout as sleep } from 'node:timers/promises'
import { Redis } from 'ioredis'
import { createClient } from 'redis'
import { expect, it } from 'vitest'
import type { Locks } from '../../src/core/lease.ts'
import { createLocks } from '../../src/lock/lock.ts'
import { type RedlockNode, redlockBackend } from '../../src/redlock.ts'
import { until } from '../support/redis.ts'
import { standOnRedlock } from '../support/redlock-stand.ts'

const stand = standOnRedlock()
const TTL = { ttlMs: 3000 } as const
/** What the warning says, and the rest as it is by default. */
const SOCKET_TIMEOUT_MS = 2000

async function ioredisAt(port: number): Promise<RedlockNode> {
  const client = new Redis({ host: '127.0.0.1', port, socketTimeout: SOCKET_TIMEOUT_MS })
  client.on('error', () => undefined)
  stand.ends.push(() => client.disconnect())
  await until(() => client.status === 'ready', 'the client is connected')
  return { client, subscriber: false }
}

async function nodeRedisAt(port: number): Promise<RedlockNode> {
  // By default it does not connect again after that.
  const reconnectStrategy = (): number => 500
  const socket = { host: '127.0.0.1', port, socketTimeout: SOCKET_TIMEOUT_MS, reconnectStrategy }
  const client = createClient({ socket })
  client.on('error', () => undefined)
  stand.ends.push(() => (client.isOpen ? client.destroy() : undefined))
  await client.connect()
  return { client, subscriber: false }
}

async function locksOf(at: (port: number) => Promise<RedlockNode>): Promise<Locks> {
  const [a, b, c] = await Promise.all(stand.proxies.map(({ port }) => at(port)))
  if (a === undefined || b === undefined || c === undefined) throw new Error('three nodes')
  const options = { onEmpty: 'fresh', maxTtlMs: 3000 } as const
  const locks = createLocks(redlockBackend({ a, b, c }, options), TTL)
  stand.ends.push(() => locks.close())
  return locks
}

async function isUsed(locks: Locks): Promise<boolean> {
  const lease = await locks.acquire('used')
  await sleep(20)
  const stands = await stand.inspectors[1]?.exists('lock:used')
  await lease.release()
  return stands === 1
}

// The accident: nobody but the client can end a connection that leads nowhere, and by default none does.
it.each([
  ['ioredis', ioredisAt, 'set socketTimeout there'],
  ['node-redis', nodeRedisAt, 'and a socket.reconnectStrategy'],
])(
  'a black hole ends by the time-out of the user’s client: %s',
  async (_, at, advice) => {
    const locks = await locksOf(at)
    const told: string[] = []
    locks.on('warning', (warning) => told.push(warning.advice))
    await until(() => isUsed(locks), 'the node is in use')
    stand.proxies[1]?.drop('toServer')
    stand.proxies[1]?.drop('toClient')
    for (let round = 0; round < 30; round++) {
      const lease = await locks.acquire(`${round}`)
      await sleep(100)
      await lease.release()
    }
    expect(await isUsed(locks)).toBe(false)
    expect(told.join()).toContain(advice)
    // The connections of before lead nowhere for good; new ones arrive.
    stand.proxies[1]?.heal()
    await until(() => isUsed(locks), 'the node is in use again', 30_000)
  },
  90_000,
)
