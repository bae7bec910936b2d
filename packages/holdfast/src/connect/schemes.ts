/** One row for each scheme: another store joins here and nowhere else. */
import { memoryBackend } from '../backends/memory/memory.ts'
import { InvalidArgumentError } from '../core/errors.ts'
import { TTL_MS_MAX } from '../core/options.ts'
import { chooseDriver, type DriverName, type DriverSource } from './drivers.ts'
import { openEtcd, readEtcdTarget } from './etcd.ts'
import { connectionOfIoredis } from './ioredis.ts'
import { connectionOfNodeRedis } from './node-redis.ts'
import { type Connection, openRedis } from './redis.ts'
import { type ConnectionTarget, type RedisTarget, readRedisTarget } from './redis-target.ts'
import { openRedlock } from './redlock.ts'
import { readRedlockTarget } from './redlock-target.ts'
import { openSqlite, readSqliteTarget } from './sqlite.ts'
import type { Scheme } from './store.ts'
import { shownPath } from './url.ts'

/** The first is taken where both load: see `ConnectOptions.driver`. */
const SQLITE_DRIVERS: readonly DriverName[] = ['better-sqlite3', 'node:sqlite']
const SQLITE_OPTIONS: readonly string[] = ['synchronous', 'tablePrefix', 'networkFileSystem']

export const SCHEMES: Readonly<Record<string, Scheme>> = {
  memory: {
    options: [],
    parameters: [],
    read({ authority, path }) {
      const more = `${authority ?? ''}${path}`
      if (more !== '') {
        throw new InvalidArgumentError('url path', shownPath(more), 'none: memory: alone')
      }
      const open = async () => ({ backend: memoryBackend(), end: () => undefined })
      return { ttlMsMax: TTL_MS_MAX, open }
    },
  },
  sqlite: {
    options: ['driver', ...SQLITE_OPTIONS],
    parameters: ['driver', ...SQLITE_OPTIONS],
    read(url, given) {
      const target = readSqliteTarget(url, given)
      return {
        ttlMsMax: TTL_MS_MAX,
        open: async (drivers) =>
          openSqlite(target, await chooseDriver(drivers, SQLITE_DRIVERS, given['driver'])),
      }
    },
  },
  redis: redis('server', false),
  rediss: redis('server', true),
  'redis+unix': redis('socket', false),
  'redis+sentinel': redis('sentinel', false),
  'rediss+sentinel': redis('sentinel', true),
  'redis+cluster': redis('cluster', false),
  'rediss+cluster': redis('cluster', true),
  redlock: redlock(false),
  'redlock+tls': redlock(true),
  etcd: etcd(false),
  'etcd+tls': etcd(true),
}

/** The first is taken where both are installed: see `ConnectOptions.driver`. */
const REDIS_DRIVERS: readonly DriverName[] = ['ioredis', 'redis']

function redis(kind: RedisTarget['kind'], isTls: boolean): Scheme {
  const ofKind = kind === 'sentinel' ? ['sentinelUsername', 'sentinelPassword'] : []
  const ofServer = kind === 'cluster' ? [] : ['onEmpty', 'replicas']
  const options = ['username', 'password', 'tls', 'keyPrefix', 'sourceId', 'ttlMsMax']
  const parameters = ['keyPrefix', 'sourceId', ...(kind === 'socket' ? ['db'] : [])]
  return {
    options: ['driver', ...options, ...ofServer, ...ofKind],
    parameters: ['driver', ...parameters, ...ofKind],
    read(url, given) {
      const target = readRedisTarget(kind, isTls, url, given)
      return {
        ttlMsMax: target.ttlMsMax,
        async open(drivers, signal) {
          const make = await makerOf(drivers, given['driver'])
          return openRedis(target, () => make(target), signal)
        },
      }
    },
  }
}

function redlock(isTls: boolean): Scheme {
  const everywhere = ['keyPrefix', 'sourceId', 'maxTtlMs', 'nodeTimeoutMs']
  return {
    options: ['driver', 'username', 'password', 'tls', ...everywhere, 'onEmpty'],
    parameters: ['driver', ...everywhere],
    read(url, given) {
      const target = readRedlockTarget(isTls, url, given)
      return {
        ttlMsMax: target.ttlMsMax,
        open: async (drivers, signal) =>
          openRedlock(target, await makerOf(drivers, given['driver']), signal),
      }
    },
  }
}

function etcd(isTls: boolean): Scheme {
  const parameters = ['keyPrefix', 'leaseMode']
  return {
    options: ['username', 'password', 'tls', ...parameters],
    parameters,
    read(url, given) {
      const target = readEtcdTarget(isTls, url, given)
      return { ttlMsMax: TTL_MS_MAX, open: (_, signal) => openEtcd(target, signal) }
    },
  }
}

async function makerOf(
  drivers: DriverSource,
  wanted: unknown,
): Promise<(target: ConnectionTarget) => Connection> {
  const { name, module } = await chooseDriver(drivers, REDIS_DRIVERS, wanted)
  const make = name === 'ioredis' ? connectionOfIoredis : connectionOfNodeRedis
  return (target) => make(module, target)
}
