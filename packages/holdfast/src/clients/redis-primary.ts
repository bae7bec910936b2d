/**
 * Looks for the primary again when the server says that it is a replica.
 *
 * A client whose server was demoted may stay connected to it for ever: the connection is sound, and
 * every request for a lock is refused. A client of ioredis can be told to connect anew; it then asks
 * its Sentinels, or the name service, who the primary is. A Sentinel client of node-redis does that by
 * itself. A plain client of node-redis has no such call: there the refusal is all that we can give.
 *
 * At most once in 5 s: the new connection may lead to a replica too, and connecting anew for each
 * request would hold up whatever else the client is used for.
 */
import { monotonicMs } from '../core/clock.ts'

const PAUSE_MS = 5000

/** What is called of ioredis, as far as it has it. */
type Reconnecting = Readonly<{
  status?: unknown
  isCluster?: unknown
  options?: { readonly reconnectOnError?: unknown }
  disconnect?: (reconnect: boolean) => void
}>

export class PrimarySearch {
  readonly #client: Reconnecting
  readonly #nowMs: () => number
  #pausedUntilMs = Number.NEGATIVE_INFINITY

  /** @param client Of ioredis. */
  constructor(client: Reconnecting, nowMs: () => number = monotonicMs) {
    this.#client = client
    this.#nowMs = nowMs
  }

  onError(error: unknown): void {
    if (!(error instanceof Error && error.message.startsWith('READONLY '))) return
    const { status, options, isCluster } = this.#client
    // A cluster client learns of its topology in other ways, and a user may have a way of their own.
    if (isCluster === true || typeof options?.reconnectOnError === 'function') return
    if (status !== 'ready' || this.#nowMs() < this.#pausedUntilMs) return
    this.#pausedUntilMs = this.#nowMs() + PAUSE_MS
    this.#client.disconnect?.(true)
  }
}
