/** What a caller holds and asks: the public interfaces of the engine. Implemented in lock/. */
import type { Backend, Fenced, HolderInfo, LockInfo, Options, RevokeOptions } from './backend.ts'
import type { Capabilities } from './capabilities.ts'
import type { LockEvents } from './events.ts'
import type { Clock } from './seams.ts'

export type { HolderInfo }

/**
 * A lock held for a bounded time.
 *
 * Guarantees: a running holder is told (`signal`) before the store may give the name away, even if
 * the store is silent, slow, hung or dead, while clock rates differ by less than 1 %. Lost is final.
 *
 * Does not guarantee: that nobody else holds the name while this process is paused or its event
 * loop is blocked, nor after a flush, an eviction, a failover or a stepped server clock. Only a
 * guard at the resource refuses a late write.
 */
export interface Lease extends Fenced, AsyncDisposable {
  /**
   * Aborts at the one deadline, or sooner when the loss is known; the reason is a
   * `LeaseLostError`. Cannot fire while the event loop is blocked: see {@link assertValid}. Does not
   * abort on `release()`.
   */
  readonly signal: AbortSignal
  /** Our own view: neither released nor lost. Asks no store. */
  readonly isHeld: boolean
  /** Milliseconds to the deadline, 0 once released or lost. */
  remainingMs(): number
  /**
   * Compares clocks on the spot.
   *
   * @param remainingMsMin What the next step needs, milliseconds, at least 0; default 0.
   * @throws LeaseLostError when lost, released, or with less than that left.
   */
  assertValid(remainingMsMin?: number): void
  /**
   * Moves the deadline now; the token stays. Safe to call at any time; the watchdog goes on with
   * the new TTL.
   *
   * @param ttlMs The lease's TTL from now on, in milliseconds; default: unchanged. Resets, never
   *   adds: ten calls leave one TTL. Never shortens what the store already promised.
   * @throws LeaseLostError when it is over; BackendUnavailableError or OutcomeUnknownError when the
   *   store gave no answer, and the lease goes on until its deadline.
   */
  renew(ttlMs?: number): Promise<void>
  /**
   * Ends the lease. Every call returns the same promise.
   *
   * @returns `not-held` when it was lost before: the work may have overlapped another holder's.
   * @throws BackendUnavailableError or OutcomeUnknownError when the store did not confirm within the
   *   lease's validity (at most 2 s); trying goes on in the background until the TTL is over.
   */
  release(): Promise<'released' | 'not-held'>
  /** A release that never rejects; the event `release-failed` tells. */
  [Symbol.asyncDispose](): Promise<void>
}

/** Durations are integers in milliseconds. */
export type LeaseOptions = Options<{
  /**
   * 30,000, as long as most work sections take with a wide margin; the backend's `ttlMsMin` to
   * `ttlMsMax`, never outside 100 to 86,400,000.
   */
  ttlMs: number
  /**
   * The signal fires this long after the last successful renewal was sent. At most, and by
   * default, `ttlMs` less drift allowance and margin; at least 2, and above `1.2 * renewEveryMs`.
   */
  renewDeadlineMs: number
  /**
   * A third of `ttlMs`, jittered: two failed renewals still leave one. At most half of
   * `renewDeadlineMs`, both rounded down, so that a shorter deadline alone leaves a second try. 1 to
   * `ttlMs`, and refused unless `renewDeadlineMs > 1.2 * renewEveryMs`.
   */
  renewEveryMs: number
  /** True: the watchdog renews until released, lost or `maxHoldMs`. */
  renew: boolean
  /** 0: how long the name stays taken even if released sooner; up to the longest TTL. */
  minHoldMs: number
  /** Infinity; then the lease is lost with reason `max-hold`. At least `ttlMs`. */
  maxHoldMs: number
  /** 0: how long the name stays taken after an expiry, not after a release; `ttlMs` and this fit the longest TTL. */
  lockDelayMs: number
  /** Up to 256 bytes of UTF-8, shown by `list`. */
  label: string
  /** Up to 512 bytes of UTF-8; what an election's leader says of itself. */
  value: string
  /** Ends asking and waiting; has no effect once the lock is granted. */
  signal: AbortSignal
}>

/** Options of a call that may wait. Durations are integers in milliseconds. */
export type AcquireOptions = LeaseOptions &
  Options<{
    /**
     * How long a contender keeps trying: 30,000, one default TTL, so that a crashed holder is gone
     * by then. 0 asks once; Infinity must be asked for.
     */
    waitMs: number
  }>

/**
 * Defaults for every call of one `createLocks`, and a clock for tests. A signal belongs to one call and
 * is refused here.
 */
export type LocksOptions = Omit<AcquireOptions, 'signal'> & Options<{ clock: Clock }>

/**
 * Locks on one store, as `createLocks` makes them. Every call is safe to make at any time and from any
 * number of callers; `InvalidArgumentError` and `ClosedError` are possible for each.
 *
 * Guarantees and their conditions are those of the backend's `capabilities`; see docs/guarantees.md.
 */
export interface Locks<C extends Capabilities = Capabilities> extends AsyncDisposable {
  readonly capabilities: C
  /** Recipes use nothing that a third party could not use. */
  readonly backend: Backend<C>
  /**
   * Waits at most `waitMs`, then rejects with LockHeldError. First in, first out within this
   * process.
   *
   * @throws LockHeldError, BackendUnavailableError (nothing applied), OutcomeUnknownError (undone in
   *   the background), NotALockError, ReentrantAcquireError, ClosedError, InvalidArgumentError, or
   *   `signal.reason` itself. Whatever it rejects with, no entry stays longer than one TTL, lock delay
   *   and minimum hold included.
   */
  acquire(lockName: string, options?: AcquireOptions): Promise<Lease>
  /**
   * Asks once, for at most 2 s or what would make the grant worthless. `null`: another owner holds it.
   *
   * @throws what `acquire` throws, LockHeldError and ReentrantAcquireError excepted: a store that
   *   fails still rejects.
   */
  tryAcquire(lockName: string, options?: LeaseOptions): Promise<Lease | null>
  /**
   * Acquires, calls `fn`, releases when `fn` settles.
   *
   * Lost meanwhile: rejects with LeaseLostError, whose `settled` is what `fn` did; an error of `fn`
   * that is not the loss itself reaches the caller as it is. Not reentrant. A release that the store
   * does not confirm is told by the event `release-failed`, not here.
   *
   * @throws what `acquire` throws, before `fn` is called; then LeaseLostError, or what `fn` threw.
   */
  using<T>(lockName: string, fn: (lease: Lease) => Promise<T>): Promise<T>
  using<T>(lockName: string, options: AcquireOptions, fn: (lease: Lease) => Promise<T>): Promise<T>
  /**
   * Who holds it, as the store sees it; null: nobody. Waits for the answer at most 2 s.
   *
   * @throws BackendUnavailableError, NotALockError.
   */
  inspect(lockName: string): Promise<LockInfo | null>
  /**
   * Locks whose names begin with `prefix` ('' by default), at most `limit` (1,000 by default, 1 to
   * 1,000,000), in no order; no snapshot. Each step waits at most 2 s.
   *
   * @throws BackendUnavailableError, while it is read.
   */
  list(options?: Options<{ prefix: string; limit: number }>): AsyncIterable<LockInfo>
  /**
   * Takes the lock over from the holder seen. `null`: it is no longer that holder's. Claim with the
   * result to stop the old holder at the data, then release it; without a claim the old holder's
   * writes pass until the next claim. Waits for the answer at most 2 s.
   *
   * @throws BackendUnavailableError (nothing applied), OutcomeUnknownError (undone in the background).
   */
  revoke(lockName: string, seen: RevokeOptions): Promise<Lease | null>
  /** Returns the function that ends the subscription. */
  on<K extends keyof LockEvents>(type: K, listener: (event: LockEvents[K]) => void): () => void
  /**
   * Refuses new work, ends waiting with ClosedError, tells every holder (`session-ended`) and
   * releases what is held, at most 5 s in all; ends only connections that Holdfast opened.
   */
  close(): Promise<void>
}
