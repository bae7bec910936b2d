/**
 * What the two holders do: take the lock, and write through the guard with whatever token they were
 * given. Both arms of a loss write through the same guard; only where the token comes from differs.
 */
import { randomBytes } from 'node:crypto'
import { createLocks, type Fenced, StaleTokenError, TokenConflictError } from 'holdfast'
import { postgresGuard } from 'holdfast/guards/postgres'
import { redisBackend } from 'holdfast/redis'
import type { Redis } from 'ioredis'
import pg from 'pg'
import type { Outcome } from '../../history.ts'
import type { Addresses } from '../../scenario.ts'
import type { Job, Program } from '../../trial.ts'
import { openRedis } from '../ground/redis-client.ts'

/** So long that no slow machine ends a hold by itself: what ends it here is the loss. */
const TTL_MS = 60_000
/** After a loss the name is free; nobody contends for it. */
const WAIT_MS = 10_000

/** A token as it can be handed from process to process. */
export interface Held {
  readonly lockName: string
  readonly owner: string
  readonly token: string
  readonly source: string
}

export interface TakeInput {
  readonly port: number
  readonly lockName: string
  /** So many times in a row; each is released before the next. */
  readonly count: number
  /** Whether the last one is kept. */
  readonly keepsLast: boolean
  readonly isOurs: boolean
}

export interface WriteInput {
  readonly postgres: Addresses['postgres']
  readonly held: Held
  readonly balance: number
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

/** Lock and counter in one script, as a program has them that takes its tokens from INCR. */
const INCR = `
  if redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2], 'NX') then
    return redis.call('INCR', KEYS[2])
  end
  return 0
`
const COMPARE_AND_DELETE = `
  if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
  return 0
`

function incrFrom(redis: Redis): (lockName: string) => Promise<Taken> {
  return async (lockName) => {
    // Of the form that the guard asks for.
    const owner = randomBytes(16).toString('base64url')
    const token = await redis.eval(INCR, 2, lockName, `${lockName}:fence`, owner, TTL_MS)
    if (token === 0) throw new Error(`${lockName} is held`)
    const held = { lockName, owner, source: 'incr', token: `${token}` }
    const release = async (): Promise<string> =>
      (await redis.eval(COMPARE_AND_DELETE, 1, lockName, owner)) === 1 ? 'released' : 'not-held'
    return { held, release }
  }
}

export const write: Program = async (job) => {
  const { postgres, held, balance } = job.input as WriteInput
  const pool = new pg.Pool({ ...postgres, max: 1, application_name: job.role })
  const guard = postgresGuard(pool)
  const { lockName, owner, source, token } = held
  const fenced: Fenced = { lockName, owner, source, fencingToken: BigInt(token) }
  try {
    await job.call('write', async () => {
      const refused = await refusalOf(() =>
        guard.transaction(fenced, async (client) => {
          await client.query('UPDATE wallets SET balance = $2 WHERE id = $1', [lockName, balance])
        }),
      )
      const detail = refused === null ? {} : { detail: refused }
      return { answer: refused === null ? 'applied' : 'refused', value: balance, token, ...detail }
    })
  } finally {
    await pool.end()
  }
}

async function refusalOf(act: () => Promise<void>): Promise<string | null> {
  try {
    await act()
    return null
  } catch (error) {
    if (error instanceof StaleTokenError || error instanceof TokenConflictError) return error.code
    throw error
  }
}
