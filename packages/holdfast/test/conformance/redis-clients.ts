/** One private Redis for a file of tests, and pairs of backends on it: two processes, as it sees. */
import { Redis } from 'ioredis'
import { Redis as Redis5 } from 'ioredis5'
import { createClient } from 'redis'
import { createClient as createClient5 } from 'redis5'
import { startRedis } from '../../../cli/src/lab/servers/index.ts'
import { redisBackend } from '../../src/redis.ts'
import type { OpenBackends } from '../../src/testkit/backend-harness.ts'
import { startProxy } from '../../src/testkit/proxy.ts'

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

/** Those that speak two protocols, by the one that they do not choose themselves. */
export const OTHER_PROTOCOLS: typeof CLIENTS = {
  'ioredis 6, RESP 2': async (port) => {
    const client = new Redis({ host: '127.0.0.1', port, protocol: 2 })
    return { client, end: () => client.quit() }
  },
  'node-redis 6, RESP 2': async (port) => {
    const client = createClient({ url: `redis://127.0.0.1:${port}`, RESP: 2 })
    client.on('error', () => undefined)
    await client.connect()
    return { client, end: () => client.close() }
  },
  'node-redis 5, RESP 3': async (port) => {
    const client = createClient5({ url: `redis://127.0.0.1:${port}`, RESP: 3 })
    client.on('error', () => undefined)
    await client.connect()
    return { client, end: () => client.close() }
  },
}

/** What each of them speaks, so that both versions of RESP are known to be tried. */
export const SPOKEN: Readonly<Record<string, number>> = {
  'ioredis 6': 3,
  'ioredis 5': 2,
  'node-redis 6': 3,
  'node-redis 5': 2,
  'ioredis 6, RESP 2': 2,
  'node-redis 6, RESP 2': 2,
  'node-redis 5, RESP 3': 3,
}

export interface RedisPairs {
  /** @param options Of `redisBackend`. */
  open(clientName: string, options?: Parameters<typeof redisBackend>[1]): Promise<OpenBackends>
  /** Lets the server grant at once with `onEmpty: 'wait'`, as if the wait for it were over. */
  admit(ttlMsMax: number): Promise<void>
  /** The version of RESP that each client speaks, as the server says. */
  spoken(): Promise<Record<string, number>>
  /** How many connections went through the proxy. */
  proxiedCount(): number
  stop(): Promise<void>
}

/** @param behindProxy Whether the clients reach the server through a proxy without faults. */
export async function startRedisPairs(behindProxy = false): Promise<RedisPairs> {
  const server = await startRedis()
  const proxy = await startProxy(server.port)
  const port = behindProxy ? proxy.port : server.port
  const inspector = new Redis(server.port, '127.0.0.1')
  return {
    async open(clientName, options) {
      const connect = CLIENTS[clientName] ?? OTHER_PROTOCOLS[clientName]
      if (!connect) throw new Error(`no client is called ${clientName}`)
      const [one, other] = await Promise.all([connect(port), connect(port)])
      const ours = redisBackend(one.client, options)
      const theirs = redisBackend(other.client, options)
      const close = async (): Promise<void> => {
        await Promise.all([ours.close(), theirs.close()])
        await Promise.all([one.end(), other.end()])
      }
      return { ours, theirs, withoutEnd: () => keysWithoutTtl(inspector), close }
    },
    async admit(ttlMsMax) {
      const runId = /run_id:(\w+)/.exec(await inspector.info('server'))?.[1]
      await inspector.set('lock:#hf:marker', `voting:conformance:${ttlMsMax}:${runId}`)
    },
    async spoken() {
      const found: Record<string, number> = {}
      for (const [name, connect] of Object.entries({ ...CLIENTS, ...OTHER_PROTOCOLS })) {
        found[name] = await protocolOf(inspector, () => connect(port))
      }
      return found
    },
    proxiedCount: () => proxy.acceptedCount,
    async stop() {
      await inspector.quit()
      await proxy.close()
      await server.stop()
    },
  }
}

/** Of the one connection that is open beside the inspector's. */
async function protocolOf(inspector: Redis, connect: () => Promise<Connection>): Promise<number> {
  const own = String(await inspector.client('ID'))
  const { client, end } = await connect()
  await redisBackend(client).inspect('any')
  const listed = String(await inspector.client('LIST')).split('\n')
  await end()
  const others = listed.filter((line) => line !== '' && !line.startsWith(`id=${own} `))
  if (others.length !== 1) throw new Error(`${others.length} connections instead of one`)
  return Number(/ resp=(\d)/.exec(others[0] ?? '')?.[1])
}

/** Counters and the marker alone may live for ever: tokens must not restart, nor a wait. */
export async function keysWithoutTtl(redis: Redis): Promise<string[]> {
  const found: string[] = []
  let cursor = '0'
  let seen = 0
  do {
    const [next, keys] = await redis.scan(cursor, 'COUNT', 1000)
    cursor = next
    seen += keys.length
    for (const key of keys) {
      if (!/#hf:(token:|marker$)/.test(key) && (await redis.pttl(key)) === -1) found.push(key)
    }
  } while (cursor !== '0' && seen < KEYS_MAX)
  return found
}
