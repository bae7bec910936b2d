/** One private Redis for a file of tests, and pairs of backends on it: two processes, as it sees. */
import { Redis } from 'ioredis'
import { Redis as Redis5 } from 'ioredis5'
import { createClient } from 'redis'
import { createClient as createClient5 } from 'redis5'
import { startRedis } from '../../../cli/src/lab/servers/index.ts'
import { redisBackend } from '../../src/redis.ts'
import type { OpenBackends } from '../../src/testkit/backend-harness.ts'

type Client = Parameters<typeof redisBackend>[0]
type Connection = Readonly<{ client: Client; end: () => unknown }>

const KEYS_MAX = 100_000

/** The clients that the backend knows by their shape, each in its oldest and newest major. */
export const CLIENTS: Readonly<Record<string, (port: number) => Promise<Connection>>> = {
  'ioredis 6': async (port) => {
    const client = new Redis(port, '127.0.0.1')
    return { client, end: () => client.quit() }
  },
  'ioredis 5': async (port) => {
    const client = new Redis5(port, '127.0.0.1')
    return { client, end: () => client.quit() }
  },
  'node-redis 6': async (port) => {
    const client = createClient({ url: `redis://127.0.0.1:${port}` })
    // Without a listener a lost connection would end the process; the suite sees it by its answers.
    client.on('error', () => undefined)
    await client.connect()
    return { client, end: () => client.close() }
  },
  'node-redis 5': async (port) => {
    const client = createClient5({ url: `redis://127.0.0.1:${port}` })
    client.on('error', () => undefined)
    await client.connect()
    return { client, end: () => client.close() }
  },
}

export interface RedisPairs {
  /** @param options Of `redisBackend`. */
  open(clientName: string, options?: Parameters<typeof redisBackend>[1]): Promise<OpenBackends>
  stop(): Promise<void>
}

export async function startRedisPairs(): Promise<RedisPairs> {
  const server = await startRedis()
  const inspector = new Redis(server.port, '127.0.0.1')
  return {
    async open(clientName, options) {
      const connect = CLIENTS[clientName]
      if (!connect) throw new Error(`no client is called ${clientName}`)
      const [one, other] = await Promise.all([connect(server.port), connect(server.port)])
      const ours = redisBackend(one.client, options)
      const theirs = redisBackend(other.client, options)
      const close = async (): Promise<void> => {
        await Promise.all([ours.close(), theirs.close()])
        await Promise.all([one.end(), other.end()])
      }
      return { ours, theirs, withoutEnd: () => keysWithoutTtl(inspector), close }
    },
    async stop() {
      await inspector.quit()
      await server.stop()
    },
  }
}

/** Counters alone may live for ever: tokens must not restart. */
async function keysWithoutTtl(redis: Redis): Promise<string[]> {
  const found: string[] = []
  let cursor = '0'
  let seen = 0
  do {
    const [next, keys] = await redis.scan(cursor, 'COUNT', 1000)
    cursor = next
    seen += keys.length
    for (const key of keys) {
      if (!key.includes('#hf:token:') && (await redis.pttl(key)) === -1) found.push(key)
    }
  } while (cursor !== '0' && seen < KEYS_MAX)
  return found
}
