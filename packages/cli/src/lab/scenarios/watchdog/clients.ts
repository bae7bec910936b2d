/** A client as a user has it: with its own default options. */
import type { RedisClient } from 'holdfast/redis'
import { Redis } from 'ioredis'
import { createClient } from 'redis'

export const CLIENTS = ['ioredis', 'node-redis'] as const
export type ClientName = (typeof CLIENTS)[number]

export interface OpenClient {
  readonly client: RedisClient
  /** At once, without waiting for answers. */
  close(): void
}

/** Both resend and reconnect by themselves; what they do while a store is silent is part of it. */
export async function openClient(name: ClientName, port: number): Promise<OpenClient> {
  if (name === 'ioredis') {
    const redis = openIoredis(port)
    await redis.ping()
    return { client: redis, close: () => redis.disconnect() }
  }
  const redis = createClient({ socket: { host: '127.0.0.1', port } })
  // Every command reports its own failure; without a listener the event would end the process.
  redis.on('error', () => {})
  await redis.connect()
  return { client: redis, close: () => redis.destroy() }
}

export function openIoredis(port: number): Redis {
  const redis = new Redis({ host: '127.0.0.1', port })
  redis.on('error', () => {})
  return redis
}
