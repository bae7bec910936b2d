/**
 * How long one guarded call may take, and whether its lease is still good.
 *
 * A lease knows its own validity, and the watchdog may lengthen it while the call runs. Of a plain
 * `Fenced` nothing is known, so the call is bounded by the guard's option `timeoutMs`.
 */
import type { Fenced } from '../../core/backend.ts'
import type { Lease } from '../../core/lease.ts'
import type { Seams } from '../../core/seams.ts'

/** Time-outs beyond this do not fit PostgreSQL's settings, nor a timer of Node. Milliseconds. */
const LIMIT_MS_MAX: number = 2 ** 31 - 1

type Validity = Pick<Lease, 'remainingMs' | 'assertValid' | 'signal'>

function isLease(fenced: Fenced): fenced is Fenced & Validity {
  const { remainingMs, assertValid } = fenced as Partial<Validity>
  // `in`, not a read: a lease makes its signal when it is first asked for.
  return (
    typeof remainingMs === 'function' && typeof assertValid === 'function' && 'signal' in fenced
  )
}

export class Bound {
  readonly #lease: Validity | null
  readonly #timeoutMs: number
  readonly #untilMs: number
  readonly #seams: Seams

  /** @param fenced Null: the call is nobody's, and only bounded. */
  constructor(fenced: Fenced | null, timeoutMs: number, seams: Seams) {
    this.#lease = fenced !== null && isLease(fenced) ? fenced : null
    this.#timeoutMs = timeoutMs
    this.#untilMs = seams.nowMs() + timeoutMs
    this.#seams = seams
  }

  /** Milliseconds that this call may still wait for its turn, a connection or another run. */
  remainingMs(): number {
    return this.#lease?.remainingMs() ?? Math.max(0, this.#untilMs - this.#seams.nowMs())
  }

  /** What the server's time-outs are set to: an integer of at least 1, because 0 means none. */
  limitMs(): number {
    const limitMs = this.#lease?.remainingMs() ?? this.#timeoutMs
    return Math.min(Math.max(1, Math.floor(limitMs)), LIMIT_MS_MAX)
  }

  get signal(): AbortSignal | undefined {
    return this.#lease?.signal
  }

  /** @throws LeaseLostError when the lease is over. */
  assertValid(): void {
    this.#lease?.assertValid()
  }

  /** The loss, when the lease is over or has less than `restMs` left; otherwise null. */
  loss(restMs = 0): { readonly error: unknown } | null {
    try {
      this.#lease?.assertValid(restMs)
      return null
    } catch (error) {
      return { error }
    }
  }
}

/** The longest that a timer may be set for a call's end. */
export function timerMs(bound: Bound): number {
  return Math.min(bound.remainingMs(), LIMIT_MS_MAX)
}

type Watcher = Readonly<{ bound: Bound; tell: () => void }>
const watchers = new WeakMap<AbortSignal, Set<Watcher>>()

/**
 * Calls `tell` when the signal of the call's lease aborts because the lease is over.
 *
 * One listener for each signal, however many calls: adding and removing one each time cost as much
 * as all the rest of a call. The signal of an election's term also aborts when draining begins, while
 * the term is still good: only the validity decides.
 *
 * @returns The function that ends the watch.
 */
export function onLoss(bound: Bound, tell: () => void): () => void {
  const { signal } = bound
  if (signal === undefined) return () => undefined
  let watching = watchers.get(signal)
  if (watching === undefined) {
    const own = new Set<Watcher>()
    watching = own
    watchers.set(signal, own)
    const onAbort = (): void => {
      for (const watcher of own) if (watcher.bound.loss() !== null) watcher.tell()
    }
    signal.addEventListener('abort', onAbort, { once: true })
  }
  const own = watching
  const watcher: Watcher = { bound, tell }
  own.add(watcher)
  return () => own.delete(watcher)
}
