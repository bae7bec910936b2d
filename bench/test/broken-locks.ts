/** Contestants that do not lock, on a real server: the bench must see each of them. */
import { openDefaults, openIoredis } from '../src/clients.ts'
import type { Contestant, Locker } from '../src/contestant.ts'
import type { FileContestant } from '../src/contestants/files.ts'
import { type QuorumContestant, withBacklog } from '../src/contestants/quorum.ts'

type Redis = Awaited<ReturnType<typeof openIoredis>>
type Acquire = (redis: Redis, key: string) => Promise<unknown>

function contestant(variant: string, acquire: Acquire, release: Acquire): Contestant {
  return {
    who: 'hand-written',
    variant,
    client: 'ioredis',
    isOwnerChecked: false,
    hasToken: false,
    connect: async (port): Promise<Locker> => {
      const redis = await openIoredis(port)
      return {
        acquire: async (lockName) => {
          await acquire(redis, lockName)
          return async () => {
            await release(redis, lockName)
          }
        },
        close: async () => redis.disconnect(),
      }
    },
  }
}

/** Grants to everybody: it forgot the NX. */
export const grantsAlways: Contestant = contestant(
  'without NX',
  (redis, key) => redis.set(key, 'mine', 'PX', 30_000),
  (redis, key) => redis.del(key),
)

/** Leaves the lock behind for ever when its process dies. */
export const hasNoTtl: Contestant = contestant(
  'without PX',
  (redis, key) => redis.set(key, 'mine'),
  (redis, key) => redis.del(key),
)

/** Frees nothing. */
export const keepsLocks: Contestant = contestant(
  'without DEL',
  (redis, key) => redis.set(key, 'mine', 'PX', 30_000),
  (redis, key) => redis.get(key),
)

/** In files: it grants to everybody, as SQLite does of two who have not the same file. */
export const excludesNobody: FileContestant = {
  who: 'hand-written',
  variant: 'in files of their own',
  client: 'folder',
  isOwnerChecked: false,
  hasToken: false,
  isSynced: false,
  connect: async () => ({ acquire: async () => async () => {}, close: async () => {} }),
}

/**
 * On three servers.
 *
 * @param setOptions Words after SET's key and value.
 * @param releases Whether its release frees anything.
 */
export function brokenQuorum(
  variant: string,
  setOptions: readonly string[],
  releases: boolean,
): QuorumContestant {
  return {
    who: 'broken',
    variant,
    client: 'ioredis',
    isOwnerChecked: false,
    hasToken: false,
    connect: async (ports) => {
      const clients = await openDefaults('ioredis', ports)
      const all = clients.all as readonly Redis[]
      const locker: Locker = {
        acquire: async (lockName) => {
          const key = `${variant}:${lockName}`
          const set = (redis: Redis) => redis.call('SET', key, 'mine', ...setOptions)
          const answers = await Promise.all(all.map(set))
          if (answers.some((answer) => answer !== 'OK')) throw new Error(`${key} is held`)
          return async () => {
            if (releases) await Promise.all(all.map((redis) => redis.del(key)))
          }
        },
        close: async () => clients.end(),
      }
      return withBacklog(locker, clients)
    },
  }
}
