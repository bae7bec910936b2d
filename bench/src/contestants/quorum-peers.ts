/**
 * Other libraries' locks on three servers, each as its own page says. Those without such a form are
 * simple-redis-mutex alone; redlock 4 and the fork of redlock 5 are left to the groups on one server.
 *
 * Where tries can be bounded they are: as many as fit into the caller's wait.
 */
import { openDefaults } from '../clients.ts'
import { RETRY_JITTER_MS, RETRY_MS, TTL_MS } from '../contestant.ts'
import { load } from './load.ts'
import type { KitRedlock, Redlock5, SemaphoreMutex, Universal, UniversalLock } from './peers.ts'
import { QUORUM_WAIT_MS, type QuorumContestant, type QuorumLocker, withBacklog } from './quorum.ts'

/** What the bars compare with. */
export const REDLOCK5 = 'redlock 5 beta'

const RETRIES = QUORUM_WAIT_MS / RETRY_MS - 1

type Connect = (ports: readonly number[]) => Promise<QuorumLocker>

export function quorumPeers(): QuorumContestant[] {
  return [
    peer(REDLOCK5, 'ioredis', redlock5),
    peer('redlock-universal', 'ioredis', redlockUniversal),
    peer('redis-semaphore', 'ioredis', redlockMutex),
    peer('@redis-kit/lock', 'node-redis', redisKit),
  ]
}

function peer(who: string, client: QuorumContestant['client'], connect: Connect): QuorumContestant {
  return { who, variant: '', client, isOwnerChecked: true, hasToken: false, connect }
}

async function redlock5(ports: readonly number[]): Promise<QuorumLocker> {
  const { default: Redlock } = await load<{ default: Redlock5 }>('redlock5')
  const clients = await openDefaults('ioredis', ports)
  const retries = { retryCount: RETRIES, retryDelay: RETRY_MS, retryJitter: RETRY_JITTER_MS }
  const redlock = new Redlock(clients.all, retries)
  redlock.on('error', () => undefined)
  const locker = {
    acquire: async (lockName: string) => {
      const lock = await redlock.acquire([lockName], TTL_MS)
      return async () => {
        await lock.release()
      }
    },
    close: async () => clients.end(),
  }
  return withBacklog(locker, clients)
}

interface UniversalQuorum extends Universal {
  createRedlock(config: object): UniversalLock<unknown>
}

async function redlockUniversal(ports: readonly number[]): Promise<QuorumLocker> {
  const { IoredisAdapter, createRedlock } = await load<UniversalQuorum>('redlock-universal')
  const clients = await openDefaults('ioredis', ports)
  const adapters = clients.all.map((client) => new IoredisAdapter(client))
  const retries = { retryAttempts: RETRIES, retryDelay: RETRY_MS }
  // Made once for a name, and meant to be used again.
  const known = new Map<string, UniversalLock<unknown>>()
  const locker = {
    acquire: async (lockName: string) => {
      const lock =
        known.get(lockName) ?? createRedlock({ adapters, key: lockName, ttl: TTL_MS, ...retries })
      known.set(lockName, lock)
      const handle = await lock.acquire()
      return async () => {
        if (!(await lock.release(handle))) throw new Error(`${lockName} was lost`)
      }
    },
    close: async () => clients.end(),
  }
  return withBacklog(locker, clients)
}

async function redlockMutex(ports: readonly number[]): Promise<QuorumLocker> {
  const { RedlockMutex } = await load<{ RedlockMutex: SemaphoreMutex }>('redis-semaphore')
  const clients = await openDefaults('ioredis', ports)
  const settings = {
    ...{ lockTimeout: TTL_MS, acquireTimeout: QUORUM_WAIT_MS, retryInterval: RETRY_MS },
    // By default it throws in a timer, which ends the process: of a lock that came too late here.
    onLockLost: () => undefined,
  }
  const locker = {
    acquire: async (lockName: string) => {
      const mutex = new RedlockMutex(clients.all, lockName, settings)
      await mutex.acquire()
      return () => mutex.release()
    },
    close: async () => clients.end(),
  }
  return withBacklog(locker, clients)
}

async function redisKit(ports: readonly number[]): Promise<QuorumLocker> {
  const { Redlock } = await load<{ Redlock: KitRedlock }>('@redis-kit/lock')
  const clients = await openDefaults('node-redis', ports)
  const redlock = new Redlock(clients.all, {
    retryDelayMs: RETRY_MS,
    retryJitterMs: RETRY_JITTER_MS,
    maxRetryAttempts: RETRIES,
  })
  const locker = {
    acquire: async (lockName: string) => {
      const lock = await redlock.acquire(lockName, TTL_MS)
      if (lock === null) throw new Error(`${lockName} was not granted`)
      return async () => {
        if (!(await lock.release())) throw new Error(`${lockName} was lost`)
      }
    },
    close: async () => clients.end(),
  }
  return withBacklog(locker, clients)
}
