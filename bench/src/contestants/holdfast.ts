/** Ours, by its public entries, with the defaults. */
import { createLocks, type Locks } from 'holdfast'
import { redisBackend } from 'holdfast/redis'
import { openEither } from '../clients.ts'
import { type ClientName, type Contestant, type Locker, TTL_MS, WAIT_MS } from '../contestant.ts'

export function holdfast(client: ClientName): Contestant {
  return {
    who: 'holdfast',
    variant: '',
    client,
    isOwnerChecked: true,
    hasToken: true,
    connect: async (port) => {
      const { client: redis, end } = await openEither(client, port)
      const locks = createLocks(redisBackend(redis), { ttlMs: TTL_MS, waitMs: WAIT_MS })
      return holdfastLocker(locks, end)
    },
  }
}

/** @param end Closes what the locks were made on. */
export function holdfastLocker(locks: Locks, end: () => void): Locker {
  return {
    acquire: async (lockName) => {
      const lease = await locks.acquire(lockName)
      return async () => {
        if ((await lease.release()) !== 'released') throw new Error(`${lockName} was lost`)
      }
    },
    close: async () => {
      await locks.close()
      end()
    },
  }
}
