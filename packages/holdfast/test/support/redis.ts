/** The four clients that are supported, one way to open each, and a look into the server beside them. */
import { setTimeout as sleep } from 'node:timers/promises'
import { Redis } from 'ioredis'
import { Redis as Redis5 } from 'ioredis5'
import { createClient } from 'redis'
import { createClient as createClient5 } from 'redis5'
import type { RedisClient } from '../../src/redis.ts'

export const CLIENT_NAMES = ['ioredis 5', 'ioredis 6', 'node-redis 5', 'node-redis 6'] as const
export type ClientName = (typeof CLIENT_NAMES)[number]

export interface ClientOptions {
  readonly username?: string
  readonly password?: string
  /** True: what a client does by itself, offline queue and resending; false, the default: none of it. */
  readonly queues?: boolean
  /** ioredis, and node-redis 6. */
  readonly keyPrefix?: string
  /** node-redis. */
  readonly RESP?: 2
}

export interface OpenClient {
  readonly client: RedisClient
  end(): void
}

/** What the page advises for ioredis. */
export const CAREFUL = {
  enableOfflineQueue: false,
  autoResendUnfulfilledCommands: false,
  maxRetriesPerRequest: 0,
}

/** Resolves when it is connected. Its errors are listened to. */
export async function openClient(
  name: ClientName,
  port: number,
  options: ClientOptions = {},
): Promise<OpenClient> {
  const { queues = false, ...rest } = options
  if (name.startsWith('ioredis')) {
    // The check needs INFO, which a user of few rights may not run, and says so on the console.
    const enableReadyCheck = rest.username === undefined
    const given = { ...rest, ...(queues ? {} : CAREFUL), enableReadyCheck, host: '127.0.0.1', port }
    const client = name === 'ioredis 5' ? new Redis5(given) : new Redis(given)
    client.on('error', () => undefined)
    await untilReady(client)
    return { client, end: () => client.disconnect() }
  }
  const given = { ...rest, disableOfflineQueue: !queues, socket: { host: '127.0.0.1', port } }
  if (name === 'node-redis 5') {
    const client = createClient5(given)
    client.on('error', () => undefined)
    await client.connect()
    return { client, end: () => (client.isOpen ? client.destroy() : undefined) }
  }
  const client = createClient(given)
  client.on('error', () => undefined)
  await client.connect()
  return { client, end: () => (client.isOpen ? client.destroy() : undefined) }
}

interface Statused {
  readonly status: string
}

async function untilReady(client: Statused): Promise<void> {
  await until(() => client.status === 'ready', 'the client is connected')
}

/** Polls; a test that hopes for what never comes fails here and not by its own time-out. */
export async function until(
  isSo: () => boolean | Promise<boolean>,
  what: string,
  withinMs = 15_000,
): Promise<void> {
  const endMs = performance.now() + withinMs
  while (!(await isSo())) {
    if (performance.now() > endMs) throw new Error(`not within ${withinMs} ms: ${what}`)
    await sleep(10)
  }
}

/** A plain connection for the test itself. */
export async function openInspector(port: number, password?: string): Promise<Redis> {
  const inspector = new Redis({ host: '127.0.0.1', port, ...(password ? { password } : {}) })
  inspector.on('error', () => undefined)
  await untilReady(inspector)
  return inspector
}

/** Every key of the server. */
export async function allKeys(inspector: Redis): Promise<string[]> {
  const found: string[] = []
  let cursor = '0'
  do {
    const [next, keys] = await inspector.scan(cursor, 'COUNT', 1000)
    found.push(...keys)
    cursor = next
  } while (cursor !== '0')
  return found.sort()
}

/** Keys that would never end, but for the counters, which must not. */
export async function keysWithoutTtl(inspector: Redis): Promise<string[]> {
  const found: string[] = []
  for (const key of await allKeys(inspector)) {
    if (!key.includes('#hf:token:') && (await inspector.pttl(key)) === -1) found.push(key)
  }
  return found
}
