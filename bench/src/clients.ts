/** The Redis clients, one way to open each. */
import { Redis } from 'ioredis'
import { createClient, type RedisClientType } from 'redis'
import type { ClientName } from './contestant.ts'

export type { Redis as IoClient } from 'ioredis'
export type NodeClient = RedisClientType

const HOST = '127.0.0.1'

/** With the settings that docs/backends/redis.md advises; they cost nothing while all is well. */
export async function openIoredis(port: number): Promise<Redis> {
  const client = new Redis({
    host: HOST,
    port,
    lazyConnect: true,
    enableOfflineQueue: false,
    autoResendUnfulfilledCommands: false,
    maxRetriesPerRequest: 0,
  })
  // A broken connection fails the command under way, and that is what is looked at.
  client.on('error', () => undefined)
  await client.connect()
  return client
}

export async function openNodeRedis(port: number, name: ClientName): Promise<NodeClient> {
  const socket = { host: HOST, port }
  const client = createClient({
    socket,
    disableOfflineQueue: true,
    ...(name === 'node-redis, timeout 0' && { commandOptions: { timeout: 0 } }),
  })
  client.on('error', () => undefined)
  await client.connect()
  return client as unknown as NodeClient
}

/** For whoever takes either client. */
export async function openEither(
  name: ClientName,
  port: number,
): Promise<{ client: Redis | NodeClient; end(): void }> {
  if (name === 'ioredis') {
    const client = await openIoredis(port)
    return { client, end: () => client.disconnect() }
  }
  const client = await openNodeRedis(port, name)
  return { client, end: () => client.destroy() }
}
