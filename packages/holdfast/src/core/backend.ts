/**
 * THE contract: what a store must do to keep locks. Start here, then read lock/lock.ts.
 *
 * A backend knows nothing of retries, deadlines, signals or waiting; the engine (lock/) does that
 * once for all of them. Five rules bind every implementation, and the conformance suite in
 * `holdfast/testkit` checks them:
 *
 * B1. One owner is one attempt. Asking again with an owner that holds the name answers with the same
 *     grant: no new token, no longer life.
 * B2. Tokens of one name strictly rise over all grants, under the condition that
 *     `capabilities.fencing` names.
 * B3. Every entry ends by itself: no key, row or node without a TTL or session, ever.
 * B4. Renewal never creates an entry; release and cancel only ever remove the caller's own.
 * B5. A cancelled owner is never granted later, however late its request arrives.
 */
import type { Capabilities } from './capabilities.ts'
import type { LossReason, Vote } from './errors.ts'
import type { Warning } from './events.ts'

/** Options that accept `undefined`, so that a caller can pass its own options on. */
export type Options<T> = { readonly [K in keyof T]?: T[K] | undefined }

/** Who holds a lock, for people. Ownership is never judged by it. */
export type HolderInfo = Readonly<{
  /** Host name, at most 64 bytes of UTF-8. */
  host: string
  pid: number
  /** Up to 256 bytes of UTF-8. */
  label?: string
  /** Up to 512 bytes of UTF-8. */
  value?: string
}>

/** What a guard needs of a lease; it may travel to another process. */
export interface Fenced {
  readonly lockName: string
  /** Strictly larger at each grant of this name; tokens of two sources do not compare. */
  readonly fencingToken: bigint
  /** 22 characters, base64url; tells two grants with one token apart. A secret: do not log it. */
  readonly owner: string
  /** Which store gave the token: kind, prefix, system id. */
  readonly source: string
}

/** A store's positive answer, plain data. */
export interface Grant extends Fenced {
  /** How long the store keeps the entry, as granted, not as asked. Milliseconds. */
  readonly ttlMs: number
  /** The backend's monotonic clock before the request left that this life counts from. */
  readonly sentAtMs: number
}

/** What the engine asks of a store for one attempt. Checked before: a backend need not check again. */
export type AcquireRequest = Readonly<{
  lockName: string
  /** Fresh for each attempt; 22 characters, base64url. */
  owner: string
  /** How long the store keeps the entry: lock delay and minimum hold included. */
  ttlMs: number
  /** A bound for the backend's own work on one request; the engine has a timer of its own. */
  timeoutMs: number
  /** The part of `ttlMs` by which an expired name stays taken; told to whoever revokes. */
  lockDelayMs: number
  /**
   * Whether this contender will ask again if refused. A backend that wakes contenders up leaves a
   * mark for the holder only then, so that a lone `tryAcquire` costs later holders nothing. The mark
   * lasts at least until the contender's next poll, 1.25 s, and ends by itself.
   */
  waits: boolean
  /**
   * Whose contenders these are: 22 characters, one for each `createLocks`. A mark that names the
   * waiter of the next contender is no reason to let another process through at a hand-over; several
   * `createLocks` on one backend wait against each other like processes.
   */
  waiter: string
  holder: HolderInfo
  /**
   * The entry must live for `ttlMs` from now on whatever becomes of its holder: it is not renewed, or
   * keeps the name taken when its holder has gone. A store that keeps many entries alive by one
   * session gives it a session of its own.
   */
  ownLife?: boolean
  /** The store's word that the lease is over, before the next renewal would tell. */
  onLost(reason: LossReason): void
}>

/** `held`: somebody else has the name, or nobody may have it yet; nothing was left behind. */
export type AcquireResult =
  | Readonly<{ kind: 'granted'; grant: Grant }>
  | Readonly<{
      kind: 'held'
      /** When asking again may succeed if nothing is released before; null: unknown. */
      retryAfterMs: number | null
      /** Null: a foreign program, or nobody (the name rests after an early release). */
      holder: HolderInfo | null
      /** The holder's token, by which contenders see progress; null or absent: not known. */
      fencingToken?: bigint | null
      votes?: readonly Vote[]
    }>

/**
 * `renewed`: the entry lives at least the asked time from the request's execution.
 * `unchanged`: still ours, but no new time can be promised.
 * `lost`: not ours any more; final.
 * The fourth answer, unknown, is a rejection.
 */
export type RenewResult =
  | Readonly<{ kind: 'renewed' | 'unchanged'; sentAtMs: number; ttlMs: number }>
  | Readonly<{ kind: 'lost'; reason: LossReason }>

/**
 * `handed-over`: released, and granted to the next contender in the same step; `wanted` says that
 * another waiter than the next contender's waits for the name too. `freed`: released to everybody, because another process
 * waits and `evenIfWanted` was false, or because the next owner was cancelled. `not-held`: the old
 * grant was no longer ours; nothing was granted. By rule B1 the same request again, for a next owner
 * that has the name, is answered by the same grant.
 */
export type HandOverResult =
  | Readonly<{ kind: 'handed-over'; grant: Grant; wanted: boolean }>
  | Readonly<{ kind: 'freed' | 'not-held' }>

/**
 * Which holder was seen: the token of one of ours, or the value of a foreign program's key as
 * `LockInfo.foreignOwner` gave it. `reason`: 1 to 256 bytes of UTF-8, shown as the operator's label.
 */
export type RevokeOptions = Readonly<
  ({ fencingToken: bigint } | { foreignOwner: string }) & { reason: string }
>

/** A lock as the store sees it at the moment of asking. */
export interface LockInfo {
  readonly lockName: string
  /** Null, and no holder: taken by a foreign program. */
  readonly fencingToken: bigint | null
  readonly holder: HolderInfo | null
  /** The foreign value's first 64 bytes; our own owners are never listed. */
  readonly foreignOwner: string | null
  /** The store's wall clock, milliseconds since 1970. */
  readonly sinceAtMs: number | null
  /** Null: bound to a session, not to a time. */
  readonly remainingMs: number | null
  /** Null: the store cannot tell. */
  readonly contenderCount: number | null
}

/**
 * A call settles when its answer is known; the engine's deadlines do not wait for that. A rejection
 * is a `LockError`: `BackendUnavailableError` when nothing was applied, `OutcomeUnknownError` when
 * it may have been.
 */
export interface Backend<C extends Capabilities = Capabilities> {
  readonly capabilities: C
  /** Set by `createLocks`: where the backend reports what an operator should know. */
  warn?: (warning: Warning) => void

  /** Asks once. */
  tryAcquire(request: AcquireRequest): Promise<AcquireResult>
  /**
   * Stands in the store's own queue, in which every contender has a place, until it is granted: one
   * owner, one call for each contender. The backend keeps the place alive, and takes it again under the
   * same owner if it vanished. Without it the engine asks again and again.
   *
   * Granted, or rejects as `tryAcquire` does, or with the reason of `signal`; the engine then cancels the
   * owner. `timeoutMs` bounds each request, not the wait.
   *
   * @param refused Called when somebody else has the name: at least once before a wait, and again after
   *   each look at the store while it waits, 1.25 s apart at most.
   * @param unanswered Called when the store has not answered those looks, with why. The next call of
   *   `refused` takes it back. A wait that times out in between rejects with that error, so it must be
   *   an `OutcomeUnknownError` where a place may be left behind.
   */
  acquireInTurn?(
    request: AcquireRequest,
    signal: AbortSignal,
    refused: (refusal: Extract<AcquireResult, { kind: 'held' }>) => void,
    unanswered?: (error: unknown) => void,
  ): Promise<AcquireResult>
  /** Resolves when asking again is worth while: a hint. Rejects or resolves on abort. */
  wakeUp?(lockName: string, signal: AbortSignal): Promise<void>
  /**
   * Nobody of this waiter waits for the name any more, none of them having got it: a store with a queue
   * gives up the place at once, which would otherwise end by itself.
   */
  stopWaiting?(lockName: string, waiter: string): Promise<void>
  /**
   * Releases and grants to the next contender of this process in one request. Without it the engine
   * releases, and the next contender asks. Undo of an unknown outcome: `cancel` of the next owner.
   */
  handOver?(grant: Grant, next: AcquireRequest, evenIfWanted: boolean): Promise<HandOverResult>

  /** Lengthens the entry to at least `ttlMs` from now; never shortens, never creates one. */
  renew(grant: Grant, ttlMs: number): Promise<RenewResult>
  /**
   * Ends the entry if it is still this grant's.
   *
   * @param keepForMs The rest of a minimum hold: the name stays taken, by nobody, this long.
   */
  release(grant: Grant, keepForMs: number): Promise<'released' | 'not-held'>
  /** Undoes an attempt of unknown outcome: its owner is never granted later (rule B5). */
  cancel(lockName: string, owner: string): Promise<void>
  /** Replaces the value that `inspect` shows of the holder. */
  proclaim(lease: Fenced, value: string): Promise<'proclaimed' | 'not-held'>
  inspect(lockName: string): Promise<LockInfo | null>
  list(prefix: string, limit: number): AsyncIterable<LockInfo>
  /**
   * Swaps the entry, if it is still the one seen, for a grant of the operator's. The same request
   * again is answered by the same grant (rule B1).
   */
  revoke(request: AcquireRequest, seen: RevokeOptions): Promise<Grant | null>
  /** Later tokens of this name are larger than `fencingTokenMin`. Never lowers anything. */
  raise(lockName: string, fencingTokenMin: bigint): Promise<void>
  /** Ends what the backend itself opened, never a client that it was given. */
  close(): Promise<void>
}
