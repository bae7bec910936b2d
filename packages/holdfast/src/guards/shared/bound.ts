/**
 * How long one guarded call may take, and whether its lease is still good. A lease looks at three
 * clocks each time that it is asked, so each step of a call asks once for all that it needs to know.
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

function limitOf(ms: number): number {
  return Math.min(Math.max(1, Math.floor(ms)), LIMIT_MS_MAX)
}

export class Bound {
  /** Null: nothing is known of validity. */
  readonly lease: Validity | null
  readonly #timeoutMs: number
  readonly #untilMs: number
  readonly #seams: Seams

  /** @param fenced Null: the call is nobody's, and only bounded. */
  constructor(fenced: Fenced | null, timeoutMs: number, seams: Seams) {
    this.lease = fenced !== null && isLease(fenced) ? fenced : null
    this.#timeoutMs = timeoutMs
    this.#untilMs = seams.nowMs() + timeoutMs
    this.#seams = seams
  }

  /** Milliseconds that this call may still wait for its turn, a connection or another run. */
  remainingMs(): number {
    return this.lease?.remainingMs() ?? Math.max(0, this.#untilMs - this.#seams.nowMs())
  }

  /**
   * The same of a call that is about to go on.
   *
   * @throws LeaseLostError when the lease is over.
   */
  validMs(): number {
    const restMs = this.remainingMs()
    if (restMs === 0) this.assertValid()
    return restMs
  }

  /** What the server's time-outs are set to: an integer of at least 1, because 0 means none. */
  limitMs(): number {
    return limitOf(this.lease?.remainingMs() ?? this.#timeoutMs)
  }

  /**
   * The same of a call that is about to go on.
   *
   * @throws LeaseLostError when the lease is over.
   */
  validLimitMs(): number {
    return limitOf(this.lease === null ? this.#timeoutMs : this.validMs())
  }

  get signal(): AbortSignal | undefined {
    return this.lease?.signal
  }

  /** @throws LeaseLostError when the lease is over. */
  assertValid(): void {
    this.lease?.assertValid()
  }

  /** The loss, when the lease is over or has less than `restMs` left; otherwise null. */
  loss(restMs = 0): { readonly error: unknown } | null {
    try {
      this.lease?.assertValid(restMs)
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
/** The same, without asking the lease for its signal. */
const watchersOfLease = new WeakMap<Validity, Set<Watcher>>()

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
  const { lease } = bound
  if (lease === null) return () => undefined
  const own = watchersOfLease.get(lease) ?? watchersOf(lease)
  const watcher: Watcher = { bound, tell }
  own.add(watcher)
  return () => own.delete(watcher)
}

function watchersOf(lease: Validity): Set<Watcher> {
  const { signal } = lease
  let own = watchers.get(signal)
  if (own === undefined) {
    const added = new Set<Watcher>()
    own = added
    watchers.set(signal, own)
    const onAbort = (): void => {
      for (const watcher of added) if (watcher.bound.loss() !== null) watcher.tell()
    }
    signal.addEventListener('abort', onAbort, { once: true })
  }
  watchersOfLease.set(lease, own)
  return own
}
