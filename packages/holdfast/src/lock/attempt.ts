/**
 * One attempt: one owner, one request, one answer or none.
 *
 * Guarantees:
 * A1. A fresh owner for each attempt. An owner that timed out or was abandoned is dead for ever.
 * A2. A grant counts from before its request left. With less than the least rest of validity it is
 *     cancelled, never returned.
 * A3. Without an answer in time, or abandoned by its caller, the attempt is cancelled in the store,
 *     and cancelled again should a grant arrive late.
 *
 * An attempt that is refused, or that the store says it did not apply, leaves nothing to undo.
 */
import { assert } from '../core/assert.ts'
import type { AcquireRequest, AcquireResult, Grant } from '../core/backend.ts'
import { elapsedMs, type Instant, instant } from '../core/elapsed.ts'
import {
  BackendUnavailableError,
  ClosedError,
  type LossReason,
  OutcomeUnknownError,
} from '../core/errors.ts'
import type { Settings } from '../core/options.ts'
import { started } from '../core/started.ts'
import { acquireTimeoutMs, leastRestMs, lifeMs } from '../core/validity.ts'
import { type Context, holderInfo, storeTtlMs } from './context.ts'
import { HeldLease } from './lease.ts'
import { asLockError, isBug, patientTimer } from './request.ts'

/** The least rest of validity is a tenth of the TTL; the same share of an own renewal deadline. */
const OWN_DEADLINE_SPENT_SHARE_MAX = 0.9

export type Refusal = Extract<AcquireResult, { kind: 'held' }>
export type Answer = Readonly<{ kind: 'granted'; lease: HeldLease }> | Refusal

/** What was sent, kept for the moment when the answer comes. */
export interface Asked {
  readonly request: AcquireRequest
  readonly settings: Settings
  /** When its caller began to ask or to wait. */
  readonly startedAtMs: number
  /** Both clocks before the request left. */
  readonly from: Instant
  /** A loss that the store reported; it may come before the lease object exists. */
  lost: LossReason | null
  lease: HeldLease | null
}

/** Who asks: whether it will ask again if refused, and since when it waits. */
export type Caller = Readonly<{ waits: boolean; startedAtMs: number }>

/** Makes the request of one attempt. Read the clocks here, before anything is queued. */
export function ask(
  context: Context,
  lockName: string,
  settings: Settings,
  { waits, startedAtMs }: Caller,
): Asked {
  const asked: Asked = {
    settings,
    startedAtMs,
    from: instant(context.seams),
    lost: null,
    lease: null,
    request: {
      lockName,
      owner: context.seams.nonce(),
      ttlMs: storeTtlMs(settings),
      timeoutMs: acquireTimeoutMs(settings.ttlMs),
      lockDelayMs: settings.lockDelayMs,
      waits,
      waiter: context.waiter,
      holder: holderInfo(context, settings),
      ownLife: livesAlone(settings),
      onLost: (reason) => {
        if (asked.lease) asked.lease.lose(reason)
        else asked.lost ??= reason
      },
    },
  }
  return asked
}

/** Not renewed for as long as it is held, or there for longer than its holder. */
function livesAlone({ renew, minHoldMs, maxHoldMs, lockDelayMs }: Settings): boolean {
  const isKept = minHoldMs > 0 || lockDelayMs > 0 || maxHoldMs < Number.POSITIVE_INFINITY
  return !renew || isKept
}

/** What every grant must be. A backend that breaks this is a bug, whoever wrote it. */
export function checkGrant({ request }: Asked, grant: Grant, nowMs: number): void {
  assert(grant.owner === request.owner, 'a grant names the owner that asked')
  assert(grant.lockName === request.lockName, 'a grant names the lock that was asked for')
  assert(grant.fencingToken > 0n, 'a fencing token is positive')
  assert(Number.isFinite(grant.ttlMs), 'a grant says how long it lasts')
  // On another clock than ours a lease could last for ever.
  assert(grant.sentAtMs <= nowMs, 'a grant counts from before its request left')
}

/** Turns a grant into a lease, or into null when too little validity is left (A2). */
export function accept(context: Context, asked: Asked, grant: Grant): HeldLease | null {
  const { settings, from } = asked
  const now = instant(context.seams)
  checkGrant(asked, grant, now.nowMs)
  // A store with a queue counts from its last keep-alive, later than the request.
  const base = { nowMs: grant.sentAtMs, bootMs: from.bootMs + (grant.sentAtMs - from.nowMs) }
  const ttlMs = Math.min(settings.ttlMs, grant.ttlMs - settings.lockDelayMs)
  const spentMs = elapsedMs(base, now)
  if (asked.lost !== null || lifeMs(ttlMs) - spentMs < leastRestMs(settings.ttlMs)) return null
  // The caller's own deadline may be over sooner.
  if (spentMs > OWN_DEADLINE_SPENT_SHARE_MAX * settings.renewDeadlineMs) return null
  const lease = new HeldLease(context, settings, grant, { base, now, ttlMs })
  asked.lease = lease
  const { lockName, fencingToken } = grant
  const waitedMs = now.nowMs - asked.startedAtMs
  context.emitter.emit('acquired', { lockName, fencingToken, waitedMs })
  return lease
}

/**
 * The last moment at which a caller who has left, or locks that were closed, give a lease back.
 *
 * @throws What the caller left by, or ClosedError.
 */
export function handOut(context: Context, lease: HeldLease): HeldLease {
  const { signal } = lease.settings
  const isClosed = context.isClosed()
  if (isClosed) lease.lose('session-ended')
  if (!isClosed && !signal?.aborted) return lease
  void lease[Symbol.asyncDispose]()
  throw isClosed ? new ClosedError() : signal?.reason
}

/** Hears how an attempt ended, by one call, never while the attempt is being made or abandoned. */
export interface Asker {
  answered(answer: Answer): void
  failed(error: unknown): void
}

export class Attempt {
  readonly #context: Context
  readonly #asked: Asked
  readonly #asker: Asker
  #endTimer: () => void = () => undefined
  #isSettled = false

  constructor(
    context: Context,
    lockName: string,
    settings: Settings,
    caller: Caller,
    asker: Asker,
  ) {
    this.#context = context
    this.#asker = asker
    this.#asked = ask(context, lockName, settings, caller)
    const { timeoutMs } = this.#asked.request
    // Sent first: what else has to be done is done while the store works.
    started(() => context.backend.tryAcquire(this.#asked.request)).then(
      (result) => this.#onResult(result),
      (error: unknown) => this.#onError(error),
    )
    const noAnswer = (): void =>
      this.abandon(new OutcomeUnknownError(`no answer within ${Math.round(timeoutMs)} ms`))
    const { nowMs } = this.#asked.from
    try {
      this.#endTimer = patientTimer(context, context.waiting, timeoutMs, nowMs, noAnswer)
    } catch (error) {
      // A caller's clock threw, after the request had left (A3).
      this.abandon(error)
    }
  }

  /** After so many milliseconds without an answer it ends by itself. */
  get timeoutMs(): number {
    return this.#asked.request.timeoutMs
  }

  /** The caller has left: fails with `error`, and undoes what may have happened (A3). */
  abandon(error: unknown): void {
    if (!this.#settle()) return
    this.#cancel()
    queueMicrotask(() => this.#asker.failed(error))
  }

  /** @returns False when it was settled before. */
  #settle(): boolean {
    if (this.#isSettled) return false
    this.#isSettled = true
    this.#endTimer()
    return true
  }

  #cancel(): void {
    const { lockName, owner, ttlMs } = this.#asked.request
    this.#context.undo.cancel(lockName, owner, ttlMs)
  }

  #onError(error: unknown): void {
    if (!this.#settle()) return
    if (!(error instanceof BackendUnavailableError)) this.#cancel()
    this.#asker.failed(isBug(error) ? error : asLockError(error, 'acquire'))
  }

  #onResult(result: AcquireResult): void {
    if (!this.#settle()) {
      // A grant for which nobody waits any more (A3).
      if (result?.kind === 'granted') this.#cancel()
      return
    }
    let answer: Answer | null
    try {
      answer = this.#answerOf(result)
    } catch (error) {
      this.#cancel()
      return this.#asker.failed(error)
    }
    if (answer !== null) return this.#asker.answered(answer)
    this.#cancel()
    const late = 'granted too late to be of use; the grant is being undone'
    this.#asker.failed(new OutcomeUnknownError(late))
  }

  /** Null: granted too late (A2). */
  #answerOf(result: AcquireResult): Answer | null {
    if (result.kind === 'held') return result
    const lease = accept(this.#context, this.#asked, result.grant)
    return lease && { kind: 'granted', lease }
  }
}
