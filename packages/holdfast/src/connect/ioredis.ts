/** Clients of ioredis 5 and 6 for locks, with the settings that docs/backends/redis.md advises. */
import type { RedisClient } from '../clients/redis.ts'
import type { Connection } from './redis.ts'
import {
  CONNECT_ATTEMPT_MS,
  DISCONNECT_MS,
  KEEP_ALIVE_MS,
  SENTINEL_MS,
  SILENCE_MS,
} from './redis-settings.ts'
import type { RedisTarget } from './redis-target.ts'

type Client = RedisClient & {
  on(event: string, listener: (...args: unknown[]) => void): unknown
  connect(): Promise<unknown>
  disconnect(): void
}

interface IoRedis {
  readonly Redis: new (options: object) => Client
  readonly Cluster: new (nodes: readonly object[], options: object) => Client
}

/** A request that its caller gave up must not be sent later, and none is sent twice. */
const CAREFUL = {
  enableOfflineQueue: false,
  autoResendUnfulfilledCommands: false,
  maxRetriesPerRequest: 0,
}

export function connectionOfIoredis(module: unknown, target: RedisTarget): Connection {
  const { Redis, Cluster } = module as IoRedis
  const client =
    target.kind === 'cluster' ? clusterOf(Cluster, target) : new Redis(ofServer(target))
  return {
    client,
    listen(onError, onReady) {
      for (const event of ['error', 'node error', 'sentinelError']) client.on(event, onError)
      client.on('ready', onReady)
    },
    connect: () => client.connect(),
    end: () => client.disconnect(),
  }
}

function shared({ credentials, tls }: RedisTarget): Record<string, unknown> {
  return {
    username: credentials?.username,
    password: credentials?.password,
    connectTimeout: CONNECT_ATTEMPT_MS,
    keepAlive: KEEP_ALIVE_MS,
    socketTimeout: SILENCE_MS,
    disconnectTimeout: DISCONNECT_MS,
    ...(tls === null ? {} : { tls }),
  }
}

function ofServer(target: RedisTarget): object {
  const { kind, addresses, path, db, groupName, sentinelCredentials, tls } = target
  const options = { ...shared(target), ...CAREFUL, lazyConnect: true, db }
  if (kind === 'socket') return { ...options, path }
  if (kind === 'server') return { ...options, ...addresses[0] }
  return {
    ...options,
    sentinels: addresses,
    name: groupName,
    sentinelUsername: sentinelCredentials?.username,
    sentinelPassword: sentinelCredentials?.password,
    sentinelCommandTimeout: SENTINEL_MS,
    ...(tls === null ? {} : { sentinelTLS: tls, enableTLSForSentinelMode: true }),
  }
}

function clusterOf(Cluster: IoRedis['Cluster'], target: RedisTarget): Client {
  return new Cluster(target.addresses, {
    lazyConnect: true,
    retryDelayOnFailover: 0,
    retryDelayOnClusterDown: 0,
    redisOptions: shared(target),
    // A certificate is for a name: addresses must reach the check as the URL and the nodes give them.
    ...(target.tls === null ? {} : { dnsLookup: passOn }),
  })
}

function passOn(host: string, done: (error: null, address: string) => void): void {
  done(null, host)
}
