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

/** As their users open them at first: an address, and the client's own defaults. One for each server. */
export interface DefaultClients {
  readonly all: readonly (Redis | NodeClient)[]
  end(): void
}

export async function openDefaults(
  name: ClientName,
  ports: readonly number[],
): Promise<DefaultClients> {
  const isIo = name === 'ioredis'
  const all = ports.map((port) => {
    const client = isIo
      ? new Redis({ host: HOST, port })
      : createClient({ socket: { host: HOST, port } })
    client.on('error', () => undefined)
    return client as Redis | NodeClient
  })
  const end = (): void => {
    for (const client of all) {
      if (client instanceof Redis) client.disconnect()
      else if (client.isOpen) client.destroy()
    }
  }
  try {
    // A default ioredis connects by itself; any first answer says that it has.
    const ready = all.map((client) => (client instanceof Redis ? client.ping() : client.connect()))
    await Promise.all(ready)
    return { all, end }
  } catch (error) {
    end()
    throw error
  }
}

/** What a client keeps of requests that were not answered. */
export interface Backlog {
  readonly requests: number
  /** Of what it has not even given to the kernel. */
  readonly bytes: number
}

/** Queues that ioredis keeps in the open; null of node-redis, which hides its own. */
export function backlogOf(client: Redis | NodeClient | undefined): Backlog | null {
  if (!(client instanceof Redis)) return null
  const { commandQueue, offlineQueue, stream } = client as unknown as {
    readonly commandQueue: { readonly length: number }
    readonly offlineQueue: { readonly length: number }
    readonly stream: { readonly writableLength: number } | undefined
  }
  return {
    requests: commandQueue.length + offlineQueue.length,
    bytes: stream?.writableLength ?? 0,
  }
}
