/** What a caller of an election holds and asks. Implemented beside it. */
import type { HolderInfo, Options } from '../../core/backend.ts'
import type { Lease, LeaseOptions } from '../../core/lease.ts'

/** Durations are integers in milliseconds. */
export type ElectionOptions = Omit<LeaseOptions, 'signal'> &
  Options<{
    /**
     * How long a leader may go on after its campaign's signal aborted, to end its work in order: 5,000,
     * or `ttlMs` where that is shorter. 0 to `ttlMs`, so that a shutdown never keeps the next leader
     * waiting for longer than a crash would.
     */
    drainMs: number
  }>

/**
 * One leadership: a lease, whose `fencingToken` is the number of the term.
 *
 * Guarantees: terms of one election rise strictly, under the backend's stated condition; `signal` has
 * aborted before the lease is given back, whoever ends the term.
 *
 * Does not guarantee: that nobody else leads while this process is paused or its event loop is blocked.
 * Only a guard at the data refuses what a deposed leader writes: give it the term.
 */
export interface Term extends Omit<Lease, 'release'> {
  /**
   * Aborts when the leader should stop, whatever the cause. `signal.reason` tells which: the reason of
   * the campaign's own signal, while the lease goes on for at most `drainMs` (`isHeld`, `assertValid`
   * and guards still say yes); a `LeaseLostError` when the term was lost, without any grace, or when it
   * was resigned. Cannot fire while the event loop is blocked: see {@link assertValid}.
   */
  readonly signal: AbortSignal
  /**
   * Replaces what the leader says of itself, for `leader()` and `observe()`. Calls take effect in the
   * order in which they were made; each waits at most 2 s for the store.
   *
   * @param value Up to 512 bytes of UTF-8.
   * @throws LeaseLostError when the term is over; BackendUnavailableError (nothing applied);
   *   OutcomeUnknownError: it may be shown, now or later, and the term goes on;
   *   InvalidArgumentError.
   */
  proclaim(value: string): Promise<void>
  /**
   * Ends the term now: call it when the work is done. Nothing is waited for, `drainMs` included. Every
   * call returns the same promise.
   *
   * @returns `not-held` when it was lost before: the work may have overlapped the next leader's.
   * @throws BackendUnavailableError or OutcomeUnknownError when the store did not confirm in time; the
   *   lease then ends with its TTL at the latest.
   */
  resign(): Promise<'released' | 'not-held'>
  /** A `resign` that never rejects. */
  [Symbol.asyncDispose](): Promise<void>
}

/** Who leads, as the store sees it at the moment of asking. */
export interface Leadership {
  /** The number of the term. */
  readonly fencingToken: bigint
  /** What the leader says of itself; '' if nothing. */
  readonly value: string
  readonly holder: HolderInfo | null
  /** The store's wall clock, milliseconds since 1970. */
  readonly sinceAtMs: number | null
}

export interface Election {
  /**
   * Stands as a candidate. Each round of the loop is one term; when its body ends the leader resigns,
   * and is a candidate again. `break` and `return` resign and end the campaign; so does an error, which
   * then reaches the caller. Each iteration is a candidate of its own.
   *
   * The loop ends, without an error, when `signal` aborts: at once while waiting, and after a body that
   * is under way. A candidate waits as long as it takes, also while the store is away.
   *
   * @param options.value Travels with the grant, so that observers never see this leader without it.
   * @throws InvalidArgumentError at once; while it is iterated ClosedError after `locks.close()`,
   *   NotALockError, ReentrantAcquireError, or BackendUnavailableError where the store forbids
   *   (`no-permission`): what waiting cannot mend.
   */
  campaign(options?: Options<{ value: string; signal: AbortSignal }>): AsyncIterable<Term>
  /**
   * Asks the store who leads; null: nobody, or a foreign program. Waits at most 2 s.
   *
   * @throws BackendUnavailableError, NotALockError, ClosedError.
   */
  leader(): Promise<Leadership | null>
  /**
   * What `leader()` says, first as it is and then whenever it has changed. Needs no candidacy.
   *
   * The latest state, not a history: what came and went between two looks is not seen, and a store that
   * does not answer is no news. A change is seen after at most a third of `ttlMs` or 2 s, whichever is
   * less, and sooner where the store wakes contenders up. Ends, without an error, when `signal` aborts.
   *
   * @throws what `campaign` throws.
   */
  observe(options?: Options<{ signal: AbortSignal }>): AsyncIterable<Leadership | null>
}
