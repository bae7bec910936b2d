/**
 * Connections to Redis that are ours: made, watched and ended here.
 *
 * Guarantee: `openRedis` either gives a connection that was ready, or has ended all that it began. No
 * event of a driver goes unheard, so none ends the process. After that the driver connects again by
 * itself; while it cannot, a warning says why.
 */
import { redisBackend } from '../backends/redis/redis-backend.ts'
import type { RedisClient } from '../clients/redis.ts'
import { BackendUnavailableError } from '../core/errors.ts'
import { systemSeams } from '../core/seams.ts'
import { type Reason, reasonOf, withoutSecrets } from './failure.ts'
import { type ConnectionTarget, type RedisTarget, secretsOf } from './redis-target.ts'
import type { Store } from './store.ts'
import { Watch } from './watch.ts'

export interface Connection {
  readonly client: RedisClient
  listen(onError: (...args: unknown[]) => void, onReady: () => void): void
  /** Called before a request can be sent on another connection than the one that was ready. */
  onLost(listener: () => void): void
  /** One try, or as many as the driver makes by itself. */
  connect(): Promise<unknown>
  /** Of a connection that is ready. */
  ping(): Promise<unknown>
  /** At once, at any time, and never throws. */
  end(): void
}

/** Between two tries; what waits for a server to start need not ask more often. */
const PAUSE_MS_MIN = 50
const PAUSE_MS_MAX = 1000

/**
 * @param make A client that is not connected yet.
 * @throws BackendUnavailableError when there is no connection within the time, or never will be;
 *   `signal.reason` when it aborts.
 */
export async function openRedis(
  target: RedisTarget,
  make: () => Connection,
  signal: AbortSignal | undefined,
): Promise<Store> {
  const first = new FirstConnection(target, signal)
  try {
    for (let pauseMs = PAUSE_MS_MIN; ; pauseMs = Math.min(2 * pauseMs, PAUSE_MS_MAX)) {
      const watch = new Watch(target, (error) => first.noted(error))
      const connection = make()
      connection.listen(watch.onError, watch.onReady)
      try {
        await first.bounded(connection.connect())
        await first.bounded(loggedIn(target, connection))
        const backend = redisBackend(connection.client, target.options)
        watch.warnThrough(backend)
        return { backend, end: () => watch.end(connection) }
      } catch (error) {
        watch.end(connection)
        first.noted(error)
      }
      await first.bounded(first.pause(pauseMs))
    }
  } finally {
    first.end()
  }
}

/**
 * Rejects where the server asks for a login, or cannot be used yet. With no password to send node-redis is
 * ready as soon as the socket is open, and the first lock would be refused.
 */
export async function loggedIn(
  { kind }: ConnectionTarget,
  connection: Pick<Connection, 'ping'>,
): Promise<void> {
  // Of a cluster both drivers have asked for its slots, and any of its nodes may be away.
  if (kind === 'cluster') return
  try {
    await connection.ping()
  } catch (error) {
    // Who is refused by name is logged in; of locks the user may have the right.
    if (!(error instanceof Error && error.message.startsWith('NOPERM'))) throw error
  }
}

/** The time for the first connection, and what was wrong with it so far. */
class FirstConnection {
  readonly #target: RedisTarget
  readonly #over: Promise<never>
  #giveUp: (reason: unknown) => void = () => undefined
  #isOver = false
  #last: { error: unknown; reason: Reason } | null = null
  readonly #cancels: (() => void)[] = []

  constructor(target: RedisTarget, signal: AbortSignal | undefined) {
    this.#target = target
    this.#over = new Promise((_, reject) => {
      this.#giveUp = (reason) => {
        this.#isOver = true
        reject(reason)
      }
    })
    // Whoever waits for it hears of it; nobody may be waiting at that moment.
    this.#over.catch(() => undefined)
    const { connectTimeoutMs } = target
    const onTimeout = (): void => this.#giveUp(this.#failure(` within ${connectTimeoutMs} ms`))
    this.#cancels.push(systemSeams.after(connectTimeoutMs, onTimeout, true))
    const onAbort = (): void => this.#giveUp(signal?.reason)
    if (signal?.aborted) onAbort()
    signal?.addEventListener('abort', onAbort)
    this.#cancels.push(() => signal?.removeEventListener('abort', onAbort))
  }

  /** Rejects once the time is over, or nothing more is to be hoped for. */
  async bounded(work: Promise<unknown>): Promise<void> {
    // What comes later has nobody to tell.
    work.catch(() => undefined)
    try {
      await Promise.race([work, this.#over])
    } finally {
      if (this.#isOver) await this.#over
    }
  }

  noted(error: unknown): void {
    if (this.#isOver) return
    const reason = reasonOf(error)
    // "Connection is closed" says less than what was said before it.
    if (this.#last === null || reason.isKnown) this.#last = { error, reason }
    if (reason.isFinal) this.#giveUp(this.#failure(''))
  }

  pause(delayMs: number): Promise<void> {
    return new Promise((resolve) => {
      this.#cancels.push(systemSeams.after(delayMs, resolve, true))
    })
  }

  end(): void {
    for (const cancel of this.#cancels) cancel()
  }

  #failure(within: string): BackendUnavailableError {
    const { place } = this.#target
    const { error, reason } = this.#last ?? { error: undefined, reason: reasonOf(undefined) }
    const cause = withoutSecrets(error, secretsOf(this.#target))
    const text = `no connection to ${place}${within}: ${reason.words}`
    return new BackendUnavailableError(reason.why, text, cause && { cause })
  }
}
