/** Clients of node-redis 5 and 6 for locks, with the settings that docs/backends/redis.md advises. */
import type { RedisClient } from '../clients/redis.ts'
import { systemSeams } from '../core/seams.ts'
import { endSignal } from './end-signal.ts'
import type { Connection } from './redis.ts'
import {
  CONNECT_ATTEMPT_MS,
  KEEP_ALIVE_MS,
  NODE_PING_MS,
  NODE_SILENCE_MS,
  PING_MS,
  SILENCE_MS,
} from './redis-settings.ts'
import type { ConnectionTarget } from './redis-target.ts'

type Client = RedisClient & {
  on(event: string, listener: (...args: unknown[]) => void): unknown
  connect(): Promise<unknown>
  ping(): Promise<unknown>
  destroy(): unknown
}

type Make = (options: object) => Client

interface NodeRedis {
  readonly createClient: Make
  readonly createSentinel: Make
  readonly createCluster: Make
}

/**
 * RESP 2 needs no HELLO, which some providers have switched off. A time-out for each command would
 * double the cost of a lock; locks have their own.
 */
const TOP = { RESP: 2, commandOptions: { timeout: 0 } }

/** A timer that comes this late was kept back by a blocked event loop. */
const BLOCKED_MS = 250

/** Between two tries to connect again; those of many programs spread. */
const RECONNECT_MS_FIRST = 50
const RECONNECT_MS_MAX = 2000
const RECONNECT_SPREAD_MS = 200

export function connectionOfNodeRedis(module: unknown, target: ConnectionTarget): Connection {
  const ending = endSignal()
  const client = clientOf(module as NodeRedis, target, ending.signal)
  return {
    client,
    listen(onError, onReady) {
      for (const event of ['error', 'node-error', 'client-error']) client.on(event, onError)
      for (const event of ['ready', 'node-ready']) client.on(event, onReady)
      if (target.kind === 'server' || target.kind === 'socket')
        watch(client, target, ending.signal, onError)
    },
    onLost(listener) {
      for (const event of ['reconnecting', 'end']) client.on(event, listener)
    },
    async connect() {
      try {
        await client.connect()
      } finally {
        // A cluster goes on to the nodes that it was told of, although it was ended meanwhile.
        if (ending.signal.aborted) destroy(client)
      }
    },
    ping: () => client.ping(),
    end() {
      destroy(client)
      // A socket that is not open yet is not ended by that, and would be used once it is.
      ending.abort()
    },
  }
}

/**
 * Makes a connection anew on which no PING is answered any more. node-redis takes what it sends for life
 * too, so that its own time-out never comes while locks are asked for. A cluster and Sentinels do not
 * tell of PINGs.
 */
function watch(
  client: Client,
  { isNode }: ConnectionTarget,
  ending: AbortSignal,
  onError: (error: unknown) => void,
): void {
  const silenceMs = isNode ? NODE_PING_MS + NODE_SILENCE_MS : PING_MS + SILENCE_MS
  let disarm = (): void => undefined
  const arm = (): void => {
    disarm()
    if (ending.aborted) return
    const dueMs = systemSeams.nowMs() + silenceMs
    disarm = systemSeams.after(silenceMs, () => {
      // After a block of the event loop timers run before answers are read: that was no silence.
      if (systemSeams.nowMs() - dueMs > BLOCKED_MS) return arm()
      onError(new Error('Socket timeout'))
      destroy(client)
      // By itself it tries until it has succeeded, and tells by events why it has not.
      client.connect().catch(onError)
    })
  }
  for (const event of ['ready', 'ping-interval']) client.on(event, arm)
  for (const event of ['reconnecting', 'end']) client.on(event, () => disarm())
}

function destroy(client: Client): void {
  try {
    // Of a Sentinel client it is a promise.
    Promise.resolve(client.destroy()).catch(() => undefined)
  } catch {
    // One that never connected says that it is closed.
  }
}

function clientOf(module: NodeRedis, target: ConnectionTarget, ending: AbortSignal): Client {
  const { kind, addresses, path, db, groupName, credentials, sentinelCredentials, isNode } = target
  const common = socketOf(target, ending)
  const own = {
    ...credentials,
    disableOfflineQueue: true,
    pingInterval: isNode ? NODE_PING_MS : PING_MS,
  }
  if (kind === 'sentinel') {
    return module.createSentinel({
      ...TOP,
      name: groupName,
      sentinelRootNodes: addresses,
      nodeClientOptions: { ...own, database: db, socket: common },
      sentinelClientOptions: { ...sentinelCredentials, socket: common },
    })
  }
  if (kind === 'cluster') {
    return module.createCluster({
      ...TOP,
      rootNodes: addresses.map((address) => ({ socket: { ...common, ...address } })),
      defaults: { ...own, socket: common },
    })
  }
  const address = kind === 'socket' ? { path } : addresses[0]
  // Not for the others, which make sockets later too: Node does not heed a signal that has aborted.
  const socket = { ...common, ...address, signal: ending }
  return module.createClient({ ...TOP, ...own, database: db, socket })
}

function socketOf({ tls }: ConnectionTarget, ending: AbortSignal): Record<string, unknown> {
  return {
    // Its own strategy gives a connection up for good that was silent for too long.
    reconnectStrategy(tries: number): number | false {
      if (ending.aborted) return false
      const delayMs = Math.min(RECONNECT_MS_FIRST * 2 ** tries, RECONNECT_MS_MAX)
      return delayMs + RECONNECT_SPREAD_MS * systemSeams.jitter()
    },
    connectTimeout: CONNECT_ATTEMPT_MS,
    keepAlive: true,
    keepAliveInitialDelay: KEEP_ALIVE_MS,
    socketTimeout: SILENCE_MS,
    ...(tls === null ? {} : { ...tls, tls: true }),
  }
}
