import { Redis } from 'ioredis'
import type { Addresses } from '../../scenario.ts'

/**
 * Opens a connection to the run's Redis and waits for its first answer.
 *
 * Without the client's own queue and resends: a command that was sent late, or twice, would be an
 * experiment of its own.
 */
export async function openRedis({ redis: address }: Addresses): Promise<Redis> {
  if (address === undefined) throw new Error('this scenario needs a Redis')
  const redis = new Redis({
    ...address,
    lazyConnect: true,
    enableOfflineQueue: false,
    autoResendUnfulfilledCommands: false,
    maxRetriesPerRequest: 0,
  })
  // Every command reports its own failure; without a listener the event would end the process.
  redis.on('error', () => {})
  try {
    await redis.connect()
    await redis.ping()
    return redis
  } catch (error) {
    // It would go on trying to connect, and keep its process alive for that.
    redis.disconnect()
    throw error
  }
}

/** A connection to a server at a port of 127.0.0.1, for one piece of work. */
export async function withRedis<T>(port: number, act: (redis: Redis) => Promise<T>): Promise<T> {
  const redis = await openRedis({ redis: { host: '127.0.0.1', port } })
  try {
    return await act(redis)
  } finally {
    redis.disconnect()
  }
}
