/**
 * Contenders that sleep until a message says that asking again is worth while; one connection for
 * all lock names of a backend.
 *
 * Guarantees:
 * W1. No release is missed between a refusal and the subscription: once the server has confirmed the
 *     subscription, the store is asked whether the name is still taken.
 * W2. A message that comes between two sleeps on one channel ends the second at once.
 * W3. A sleep settles when its signal aborts, whatever the connection does, and never rejects. Where
 *     there is no subscription to be had (no permission, no connection), it just goes on: contenders
 *     poll besides.
 *
 * The connection is opened at the first sleep. A subscription outlives its last sleeper a little,
 * because the usual reason to wake up is to ask, be refused, and sleep again.
 */
import type { CancelTimer } from '../core/clock.ts'
import type { Seams } from '../core/seams.ts'
import type { OpenSubscriber, SubscriberConnection } from './redis-subscriber.ts'

const LINGER_MS = 2000
/** A subscription that failed is tried again after this, a connection that ended not before it. */
const RETRY_MS = 5000

interface Channel {
  readonly name: string
  readonly sleepers: Set<() => void>
  /** W2. */
  missed: boolean
  cancelLinger: CancelTimer | null
  /** Runs while the subscription has failed. */
  cancelRetry: CancelTimer | null
}

export class RedisWakeUps {
  readonly #open: OpenSubscriber
  readonly #seams: () => Seams
  readonly #isTaken: (channel: string) => Promise<boolean>
  readonly #channels = new Map<string, Channel>()
  #connection: SubscriberConnection | null = null
  #pausedUntilMs = Number.NEGATIVE_INFINITY
  #closed = false

  /**
   * @param isTaken Asks the store whether the lock of a channel is taken, and says there that
   *   somebody waits for it.
   */
  constructor(
    open: OpenSubscriber,
    seams: () => Seams,
    isTaken: (channel: string) => Promise<boolean>,
  ) {
    this.#open = open
    this.#seams = seams
    this.#isTaken = isTaken
  }

  sleep(name: string, signal: AbortSignal): Promise<void> {
    if (signal.aborted) return Promise.resolve()
    // Waking those who come after the close would make them ask without a pause.
    if (this.#closed) return aborted(signal)
    const known = this.#channels.get(name)
    if (known?.missed) {
      known.missed = false
      return Promise.resolve()
    }
    const channel = known ?? {
      name,
      sleepers: new Set(),
      missed: false,
      cancelLinger: null,
      cancelRetry: null,
    }
    channel.cancelLinger?.()
    channel.cancelLinger = null
    const slept = this.#sleep(channel, signal)
    if (!known) {
      this.#channels.set(name, channel)
      this.#subscribe(channel)
    }
    return slept
  }

  /** Wakes everybody, and ends the connection if it is ours. */
  close(): void {
    this.#closed = true
    for (const channel of this.#channels.values()) {
      this.#wake(channel)
      this.#forget(channel)
    }
    this.#connection?.end()
    this.#connection = null
  }

  #sleep(channel: Channel, signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const wake = (): void => {
        signal.removeEventListener('abort', wake)
        channel.sleepers.delete(wake)
        if (channel.sleepers.size === 0) this.#linger(channel)
        resolve()
      }
      signal.addEventListener('abort', wake)
      channel.sleepers.add(wake)
    })
  }

  #wake(channel: Channel): void {
    for (const wake of [...channel.sleepers]) wake()
  }

  /** Something happened to the name. */
  #tell(channel: Channel): void {
    if (channel.sleepers.size === 0) channel.missed = true
    else this.#wake(channel)
  }

  #isCurrent(channel: Channel): boolean {
    return this.#channels.get(channel.name) === channel
  }

  #subscribe(channel: Channel): void {
    const connection = this.#connected()
    if (connection === null) return this.#onFailed(channel)
    connection.subscribe(channel.name).then(
      () => this.#onConfirmed(channel),
      () => this.#onFailed(channel),
    )
  }

  /** W1. */
  #onConfirmed(channel: Channel): void {
    if (!this.#isCurrent(channel)) return
    this.#isTaken(channel.name).then(
      (isTaken) => {
        if (!isTaken) this.#tell(channel)
      },
      // Whoever sleeps has to ask instead, and learns what is wrong with the store.
      () => this.#tell(channel),
    )
  }

  #onFailed(channel: Channel): void {
    if (!this.#isCurrent(channel)) return
    // Kept, it would be taken for subscribed by the next sleeper.
    if (channel.sleepers.size === 0) return this.#forget(channel)
    channel.cancelRetry?.()
    channel.cancelRetry = this.#seams().after(RETRY_MS, () => {
      channel.cancelRetry = null
      if (channel.sleepers.size === 0) this.#forget(channel)
      else this.#subscribe(channel)
    })
  }

  #linger(channel: Channel): void {
    if (!this.#isCurrent(channel)) return
    channel.cancelLinger?.()
    channel.cancelLinger = this.#seams().after(LINGER_MS, () => {
      this.#forget(channel)
      // A subscription that stays costs a message now and then that nobody reads.
      this.#connection?.unsubscribe(channel.name).catch(() => {})
    })
  }

  #forget(channel: Channel): void {
    channel.cancelLinger?.()
    channel.cancelRetry?.()
    this.#channels.delete(channel.name)
  }

  #connected(): SubscriberConnection | null {
    if (this.#connection !== null) return this.#connection
    if (this.#closed || this.#seams().nowMs() < this.#pausedUntilMs) return null
    try {
      this.#connection = this.#open({
        onMessage: (name) => {
          const channel = this.#channels.get(name)
          if (channel) this.#tell(channel)
        },
        onReconnected: () => {
          for (const channel of this.#channels.values()) this.#subscribe(channel)
        },
        onEnded: () => this.#onEnded(),
      })
      return this.#connection
    } catch {
      // A client that cannot be duplicated: polling remains.
      this.#pausedUntilMs = this.#seams().nowMs() + RETRY_MS
      return null
    }
  }

  /** Not opened again at once: a server that takes no more connections would be asked for ever. */
  #onEnded(): void {
    if (this.#connection === null) return
    const ended = this.#connection
    this.#connection = null
    this.#pausedUntilMs = this.#seams().nowMs() + RETRY_MS
    ended.end()
    for (const channel of this.#channels.values()) this.#onFailed(channel)
  }
}

/** Settles when `signal` aborts, and only then. */
export function aborted(signal: AbortSignal): Promise<void> {
  if (signal.aborted) return Promise.resolve()
  return new Promise((resolve) => {
    signal.addEventListener('abort', () => resolve(), { once: true })
  })
}
