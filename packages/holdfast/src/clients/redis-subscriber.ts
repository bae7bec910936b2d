/**
 * One connection in subscriber mode, whichever client it is of.
 *
 * Guarantee: its errors are listened to when it is ours; nothing here rejects unhandled. It says when
 * a subscription is confirmed, because only from then on is a message sure to arrive.
 */
import { InvalidArgumentError } from '../core/errors.ts'
import type { RedisClient, RedisFamily } from './redis.ts'

/** A client that may be given for push alone; it is used for subscriptions and nothing else. */
export interface RedisSubscriber {
  // biome-ignore lint/suspicious/noExplicitAny: each client has overloads of its own.
  subscribe(channel: string, ...rest: any[]): Promise<unknown>
  // biome-ignore lint/suspicious/noExplicitAny: the same.
  unsubscribe(channel: string, ...rest: any[]): Promise<unknown>
  // biome-ignore lint/suspicious/noExplicitAny: each event has arguments of its own.
  on(event: string, listener: (...args: any[]) => void): unknown
}

/** @throws InvalidArgumentError unless `given` is undefined, false or a client for push. */
export function checkSubscriber(
  option: string,
  given: unknown,
): RedisSubscriber | false | undefined {
  if (given === undefined || given === false) return given
  const shape = given as Partial<Record<keyof RedisSubscriber, unknown>> | null
  const methods = [shape?.subscribe, shape?.unsubscribe, shape?.on]
  if (typeof given !== 'object' || methods.some((method) => typeof method !== 'function')) {
    const allowed = 'false, or a client with subscribe, unsubscribe and on'
    throw new InvalidArgumentError(option, given, allowed)
  }
  return given as RedisSubscriber
}

type Listener = (...args: unknown[]) => void

/** What clients have besides, as far as they have it. */
type Client = RedisSubscriber & {
  readonly isCluster?: boolean
  off?(event: string, listener: Listener): unknown
  duplicate?(...args: unknown[]): Client
  connect?(): Promise<unknown>
  disconnect?(): unknown
  destroy?(): unknown
}

export interface SubscriberEvents {
  onMessage(channel: string): void
  /** Connected again: what was published meanwhile is lost. */
  onReconnected(): void
  /** It will not come back by itself. */
  onEnded(): void
}

export interface SubscriberConnection {
  /** Resolves when the server has confirmed it. */
  subscribe(channel: string): Promise<void>
  unsubscribe(channel: string): Promise<void>
  /** Ends the connection if it is ours, and takes back our listeners in any case. */
  end(): void
}

/** Makes a connection for push at once; it connects in the background. */
export type OpenSubscriber = (events: SubscriberEvents) => SubscriberConnection

/**
 * How `client` gets a connection for push; null: it does not.
 *
 * @param given The user's own subscriber, false for none, or undefined: a duplicate of `client`.
 */
export function subscriberOf(
  client: RedisClient,
  family: RedisFamily,
  given: RedisSubscriber | false | undefined,
): OpenSubscriber | null {
  if (given === false) return null
  if (given !== undefined) {
    return (events) => new Connection(given, familyOf(given, family), events)
  }
  const original = client as unknown as Client
  if (typeof original.duplicate !== 'function') return null
  return (events) => openDuplicate(original, family, events)
}

/** A subscriber need not be of the family of the client beside it. */
function familyOf(subscriber: RedisSubscriber, otherwise: RedisFamily): RedisFamily {
  const { evalsha, evalSha } = subscriber as { evalsha?: unknown; evalSha?: unknown }
  if (typeof evalSha === 'function') return 'node-redis'
  return typeof evalsha === 'function' ? 'ioredis' : otherwise
}

/** A cluster client of node-redis has names of its own for what happens to it, or to a node. */
const ENDS = ['end', 'disconnect'] as const
const RECONNECTINGS = ['reconnecting', 'node-reconnecting'] as const
const READIES = ['ready', 'node-ready'] as const

/** What suits requests, which must not be late, does not suit a subscription, which must come back. */
const DUPLICATE: Readonly<Record<RedisFamily, Readonly<Record<string, unknown>>>> = {
  ioredis: {
    enableOfflineQueue: true,
    maxRetriesPerRequest: null,
    // Subscribing again is ours, to know when it is confirmed.
    autoResubscribe: false,
    lazyConnect: false,
  },
  'node-redis': {
    disableOfflineQueue: false,
    // Of a cluster: one connection, not one to each primary.
    minimizeConnections: true,
  },
}

function openDuplicate(
  original: Client,
  family: RedisFamily,
  events: SubscriberEvents,
): SubscriberConnection {
  // A cluster client of ioredis takes other nodes to begin with first.
  const nodes = family === 'ioredis' && original.isCluster === true ? [[]] : []
  const own = original.duplicate?.(...nodes, DUPLICATE[family]) as Client
  // An 'error' event without a listener ends the process; the other events tell us enough.
  own.on('error', ignore)
  // A program that ended its own client must be able to exit without knowing of this one.
  const onOriginalEnded: Listener = () => {
    opened.end()
    events.onEnded()
  }
  const opened = new Connection(own, family, events, () => {
    for (const event of ENDS) original.off?.(event, onOriginalEnded)
    if (family === 'ioredis') own.disconnect?.()
    // Of a Sentinel client it is a promise.
    else Promise.resolve(own.destroy?.()).catch(ignore)
  })
  for (const event of ENDS) original.on(event, onOriginalEnded)
  if (family === 'node-redis') opened.connect()
  return opened
}

function ignore(): void {}

class Connection implements SubscriberConnection {
  readonly #client: Client
  readonly #isIo: boolean
  readonly #events: SubscriberEvents
  readonly #endOwn: () => void
  #connected: Promise<unknown> = Promise.resolve()
  #interrupted = false

  constructor(
    client: Client,
    family: RedisFamily,
    events: SubscriberEvents,
    endOwn: () => void = ignore,
  ) {
    this.#client = client
    this.#isIo = family === 'ioredis'
    this.#events = events
    this.#endOwn = endOwn
    if (this.#isIo) client.on('message', this.#onIoMessage)
    for (const event of RECONNECTINGS) client.on(event, this.#onReconnecting)
    for (const event of READIES) client.on(event, this.#onReady)
    for (const event of ENDS) client.on(event, this.#onEnd)
  }

  /** node-redis connects when told to, and gives up only where its options say so. */
  connect(): void {
    this.#connected = this.#client.connect?.() ?? Promise.resolve()
    this.#connected.catch(this.#onEnd)
  }

  async subscribe(channel: string): Promise<void> {
    await this.#connected
    if (this.#isIo) await this.#client.subscribe(channel)
    else await this.#client.subscribe(channel, this.#onNodeMessage)
  }

  async unsubscribe(channel: string): Promise<void> {
    await this.#connected
    if (this.#isIo) await this.#client.unsubscribe(channel)
    else await this.#client.unsubscribe(channel, this.#onNodeMessage)
  }

  end(): void {
    this.#client.off?.('message', this.#onIoMessage)
    for (const event of RECONNECTINGS) this.#client.off?.(event, this.#onReconnecting)
    for (const event of READIES) this.#client.off?.(event, this.#onReady)
    for (const event of ENDS) this.#client.off?.(event, this.#onEnd)
    try {
      this.#endOwn()
    } catch {
      // node-redis 5 throws when it had given up connecting: then it is ended already.
    }
  }

  readonly #onIoMessage: Listener = (channel) => this.#events.onMessage(String(channel))
  readonly #onNodeMessage: Listener = (_, channel) => this.#events.onMessage(String(channel))
  readonly #onEnd: Listener = () => this.#events.onEnded()
  readonly #onReconnecting: Listener = () => {
    this.#interrupted = true
  }
  readonly #onReady: Listener = () => {
    if (!this.#interrupted) return
    this.#interrupted = false
    this.#events.onReconnected()
  }
}
