/** The Redis with the locks, once as a program writes it by hand and once through Holdfast. */
import { createLocks, type Locks } from 'holdfast'
import { redisBackend } from 'holdfast/redis'
import type { Redis } from 'ioredis'
import type { DrawId, Outcome } from '../../history.ts'
import type { Addresses, Round, Stores } from '../../scenario.ts'
import { openRedis } from '../redis-client.ts'

export interface UnlockStores extends Stores {
  readonly redis: Redis
  readonly locks: Locks
}

/** What Holdfast puts before a lock name by default; the lab looks at the key itself. */
const HOLDFAST_PREFIX = 'lock:'

/** Opens it and uses it once, so that the first round is like the others. */
export async function openUnlockStores(addresses: Addresses): Promise<UnlockStores> {
  const redis = await openRedis(addresses)
  const locks = createLocks(redisBackend(redis))
  const lease = await locks.acquire(`warm-up:${process.pid}`, { ttlMs: 10_000, renew: false })
  await lease.release()
  const close = async (): Promise<void> => {
    await locks.close()
    redis.disconnect()
  }
  return { redis, locks, close }
}

/** Each performance has a lock of its own, so that nothing is left of the one before. */
function lockNameOf({ round, draw }: DrawId, place: string): string {
  return `${place}:${round}:${draw}`
}

export function nameIn(round: Round): string {
  return lockNameOf(round, round.place)
}

/** Whose the key is just now, by Redis's own word. */
export async function lookAtKey(
  { redis }: UnlockStores,
  id: DrawId,
  place: string,
): Promise<Outcome> {
  const name = lockNameOf(id, place)
  const [bare, holdfast] = await redis.mget(name, HOLDFAST_PREFIX + name)
  return { answer: 'seen', detail: bare ?? holdfast ?? '' }
}
