/** Clients of ioredis 5 and 6 for locks, with the settings that docs/backends/redis.md advises. */
import type { RedisClient } from '../clients/redis.ts'
import { systemSeams } from '../core/seams.ts'
import type { Connection } from './redis.ts'
import {
  CONNECT_ATTEMPT_MS,
  DISCONNECT_MS,
  KEEP_ALIVE_MS,
  NODE_PING_MS,
  NODE_SILENCE_MS,
  SENTINEL_MS,
  SILENCE_MS,
} from './redis-settings.ts'
import type { ConnectionTarget } from './redis-target.ts'

type Client = RedisClient & {
  on(event: string, listener: (...args: unknown[]) => void): unknown
  connect(): Promise<unknown>
  disconnect(reconnect?: boolean): void
  ping(): Promise<unknown>
}

interface IoRedis {
  readonly Redis: new (options: object) => Client
  readonly Cluster: new (nodes: readonly object[], options: object) => Client
}

/** In which what has arrived is read. */
const TURNS_MS = 50

/** A request that its caller gave up must not be sent later, and none is sent twice. */
const CAREFUL = {
  enableOfflineQueue: false,
  autoResendUnfulfilledCommands: false,
  maxRetriesPerRequest: 0,
}

export function connectionOfIoredis(module: unknown, target: ConnectionTarget): Connection {
  const { Redis, Cluster } = module as IoRedis
  const client =
    target.kind === 'cluster' ? clusterOf(Cluster, target) : new Redis(ofServer(target))
  return {
    client,
    listen(onError, onReady) {
      for (const event of ['error', 'node error', 'sentinelError']) client.on(event, onError)
      client.on('ready', onReady)
      if (target.isNode) watch(client, onError)
    },
    onLost(listener) {
      for (const event of ['close', 'reconnecting', 'end']) client.on(event, listener)
    },
    connect: () => client.connect(),
    ping: () => client.ping(),
    end: () => client.disconnect(),
  }
}

/**
 * Makes a connection anew on which a PING, or the handshake, is not answered. The driver's own time-out is not used for
 * that: after a block of the event loop it counts as silence what was not read yet.
 */
function watch(client: Client, onError: (error: unknown) => void): void {
  let cancel = (): void => undefined
  let epoch = 0
  const over = (): void => {
    epoch += 1
    cancel()
  }
  const answered = (own: number): void => {
    if (own !== epoch) return
    cancel()
    cancel = systemSeams.after(NODE_PING_MS, () => ask(own))
  }
  const expect = (): void => {
    const giveUp = (): void => {
      over()
      onError(new Error('Socket timeout'))
      client.disconnect(true)
    }
    // After a block of the event loop timers run before answers are read: those get their turn first.
    cancel = systemSeams.after(NODE_SILENCE_MS, () => {
      cancel = systemSeams.after(TURNS_MS, giveUp)
    })
  }
  const ask = (own: number): void => {
    expect()
    // A refusal is an answer too; of a connection that ended `over` hears.
    client.ping().then(
      () => answered(own),
      () => answered(own),
    )
  }
  client.on('connect', () => {
    over()
    expect()
  })
  client.on('ready', () => {
    over()
    ask(epoch)
  })
  for (const event of ['close', 'end']) client.on(event, over)
}

function shared({ credentials, tls }: ConnectionTarget): Record<string, unknown> {
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

function ofServer(target: ConnectionTarget): object {
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

function clusterOf(Cluster: IoRedis['Cluster'], target: ConnectionTarget): Client {
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
