/**
 * What the two holders of one Redis do: take the lock, and give it back or keep it. Both arms of a
 * loss write through the same guard; only where the token comes from differs.
 */
import { createLocks } from 'holdfast'
import { redisBackend } from 'holdfast/redis'
import type { Redis } from 'ioredis'
import type { Outcome } from '../../history.ts'
import type { Job, Program } from '../../trial.ts'
import { openRedis } from '../ground/redis-client.ts'
import type { Held } from '../wallet/write-held.ts'
import { COMPARE_AND_DELETE, newOwner, SET_AND_INCR } from './by-hand.ts'

/** So long that no slow machine ends a hold by itself: what ends it here is the loss. */
const TTL_MS = 60_000
/** After a loss the name is free; nobody contends for it. */
const WAIT_MS = 10_000

export interface TakeInput {
  readonly port: number
  readonly lockName: string
  /** So many times in a row; each is released before the next. */
  readonly count: number
  /** Whether the last one is kept. */
  readonly keepsLast: boolean
  readonly isOurs: boolean
}

export const take: Program = async (job) => {
  const input = job.input as TakeInput
  const redis = await openRedis({ redis: { host: '127.0.0.1', port: input.port } })
  const locks = createLocks(redisBackend(redis, { subscriber: false }))
  try {
    for (let count = 1; ; count++) {
      const isLast = count === input.count
      const grant = input.isOurs ? oursFrom(locks) : incrFrom(redis)
      const taken = await grantIn(job, () => grant(input.lockName))
      if (isLast && input.keepsLast) return taken.held
      await job.call('release', async () => ({ answer: await taken.release() }))
      if (isLast) return null
    }
  } finally {
    await locks.close()
    redis.disconnect()
  }
}

interface Taken {
  readonly held: Held
  release(): Promise<string>
}

async function grantIn(job: Job, grant: () => Promise<Taken>): Promise<Taken> {
  const { taken } = await job.call<Outcome & { taken: Taken }>('acquire', async () => {
    const taken = await grant()
    const { owner, token } = taken.held
    return { answer: 'granted', owner, token, taken }
  })
  return taken
}

function oursFrom(locks: ReturnType<typeof createLocks>): (lockName: string) => Promise<Taken> {
  return async (lockName) => {
    const options = { ttlMs: TTL_MS, waitMs: WAIT_MS, renew: false }
    const lease = await locks.acquire(lockName, options)
    const { owner, source, fencingToken } = lease
    const held = { lockName, owner, source, token: `${fencingToken}` }
    return { held, release: () => lease.release() }
  }
}

function incrFrom(redis: Redis): (lockName: string) => Promise<Taken> {
  return async (lockName) => {
    const owner = newOwner()
    const token = await redis.eval(SET_AND_INCR, 2, lockName, `${lockName}:fence`, owner, TTL_MS)
    if (token === 0) throw new Error(`${lockName} is held`)
    const held = { lockName, owner, source: 'incr', token: `${token}` }
    const release = async (): Promise<string> =>
      (await redis.eval(COMPARE_AND_DELETE, 1, lockName, owner)) === 1 ? 'released' : 'not-held'
    return { held, release }
  }
}
