/**
 * The part that renews a lease in the background, and tells when it is over.
 *
 * Guarantees:
 * W1. The deadline is compared before any renewal is sent: a holder whose event loop was blocked
 *     past it is told, not renewed.
 * W2. Silence never moves the deadline. Only an answer does, counted from before it was asked for.
 * W3. A failed renewal is retried after a tenth of the TTL, or half of a shorter own interval, until
 *     the deadline; one failure is no loss.
 * W4. Nothing is sent and no entry is left on the agenda once the lease is released or lost.
 *
 * The wall clock never moves a deadline. A forward step of it may mean that the machine slept, so it
 * brings the next renewal forward, no more.
 */
import type { RenewResult } from '../core/backend.ts'
import { type Instant, instant } from '../core/elapsed.ts'
import { type LockError, OutcomeUnknownError } from '../core/errors.ts'
import { renewRetryMs, renewTimeoutMs } from '../core/validity.ts'
import type { Entry } from './agenda.ts'
import type { Context } from './context.ts'
import type { HeldLease } from './lease.ts'
import { WALL_STEP_MS } from './pulse.ts'
import { asLockError, bounded } from './request.ts'

/** Renewals come up to a tenth earlier than planned, so that those of many leases spread. */
const JITTER_SHARE = 0.1
/** The same ratio that options are held to: a renewal after it leaves no time for a second try. */
const LATEST_RATIO = 1.2
/** The least of `renewRetryMs` and of `renewTimeoutMs`. */
const RETRY_MS_MIN = 10
const TIMEOUT_MS_MIN = 50

export class Watchdog {
  readonly #context: Context
  readonly #lease: HeldLease
  readonly #renews: boolean
  #deadline: Entry | null = null
  #renewal: Entry | null = null
  #wallLeadMs: number

  constructor(context: Context, lease: HeldLease, now: Instant) {
    this.#context = context
    this.#lease = lease
    this.#renews = lease.settings.renew
    this.#wallLeadMs = this.#readWallLead(now.nowMs)
    const restMs = lease.remainingAt(now)
    // The first renewal comes sooner, and arms the deadline: most leases are released before it.
    if (this.#renews) this.#planRenewal(this.#paceMs(restMs), now.nowMs)
    else this.#armDeadline(restMs, now.nowMs)
  }

  /** W4. */
  stop(): void {
    if (this.#deadline) this.#context.agenda.cancel(this.#deadline)
    if (this.#renewal) this.#context.agenda.cancel(this.#renewal)
    this.#deadline = this.#renewal = null
  }

  /**
   * Sends one renewal and waits for its answer, at most a tenth of the TTL and never past the
   * deadline. An answer that comes later still counts, as long as the lease is held.
   *
   * @throws LockError when there was no answer in time, or the store could not do it.
   */
  async renewNow(ttlMs: number, background: boolean): Promise<RenewResult> {
    const { backend, seams } = this.#context
    const lease = this.#lease
    const from = instant(seams)
    const restMs = lease.remainingMs()
    const loss = lease.loss()
    if (loss) throw loss
    const timeoutMs = Math.min(this.#timeoutMs(ttlMs), restMs)
    const storeTtlMs = ttlMs + lease.settings.lockDelayMs
    lease.onRenewalSent(storeTtlMs)
    try {
      const answer = await bounded(this.#context, {
        timeoutMs,
        ask: () => backend.renew(lease.grant, storeTtlMs),
        onTimeout: () =>
          new OutcomeUnknownError(`no answer to a renewal within ${Math.round(timeoutMs)} ms`),
        late: (answer) => lease.onRenewal(answer, from, ttlMs),
        background,
      })
      lease.onRenewal(answer, from, ttlMs)
      return answer
    } catch (error) {
      throw asLockError(error, 'renewal')
    }
  }

  /** After the lease's TTL was changed by hand: the old plan may be too slow for it. */
  replan(): void {
    if (!this.#renews || !this.#lease.isHeld) return
    if (this.#renewal) this.#context.agenda.cancel(this.#renewal)
    this.#planRenewal(this.#paceMs())
  }

  /** Called whenever the lease looks at its clocks. */
  noteWallClock(nowMs: number): void {
    const leadMs = this.#readWallLead(nowMs)
    const gainedMs = leadMs - this.#wallLeadMs
    this.#wallLeadMs = leadMs
    if (gainedMs < WALL_STEP_MS || this.#renewal === null) return
    this.#context.agenda.cancel(this.#renewal)
    this.#planRenewal(0)
  }

  /** Sooner where a store granted less than was asked for, or could promise no new time. */
  #paceMs(restMs: number = this.#lease.remainingMs()): number {
    return Math.min(this.#lease.timing.everyMs, restMs / LATEST_RATIO)
  }

  /** An own interval that is short leaves less time for a second try than the TTL would. */
  #retryMs(): number {
    const { ttlMs, everyMs } = this.#lease.timing
    return Math.max(RETRY_MS_MIN, Math.min(renewRetryMs(ttlMs), everyMs / 2))
  }

  #timeoutMs(ttlMs: number): number {
    return Math.min(renewTimeoutMs(ttlMs), Math.max(TIMEOUT_MS_MIN, this.#lease.timing.everyMs / 2))
  }

  #readWallLead(nowMs: number): number {
    return this.#context.seams.wallMs() - nowMs
  }

  /** One entry for the rest of the lease's life: renewals move the deadline, not the entry. */
  #armDeadline(restMs: number, nowMs: number): void {
    const { agenda, seams } = this.#context
    this.#deadline = agenda.add(nowMs + restMs, () => {
      this.#deadline = null
      const now = instant(seams)
      const leftMs = this.#lease.remainingAt(now)
      if (leftMs > 0) this.#armDeadline(leftMs, now.nowMs)
    })
  }

  #planRenewal(delayMs: number, nowMs: number = this.#context.seams.nowMs()): void {
    const { agenda, seams } = this.#context
    const early = 1 - JITTER_SHARE * seams.jitter()
    this.#renewal = agenda.add(nowMs + delayMs * early, () => {
      this.#renewal = null
      this.#renew()
    })
  }

  #renew(): void {
    const lease = this.#lease
    const startedAt: Instant = instant(this.#context.seams)
    // W1: reading it ends a lease that is over.
    const restMs = lease.remainingAt(startedAt)
    if (restMs === 0) return
    if (this.#deadline === null) this.#armDeadline(restMs, startedAt.nowMs)
    const renewal = this.renewNow(lease.timing.ttlMs, true).then(
      () => this.#next(this.#paceMs(), startedAt),
      (error: LockError) => {
        if (!lease.isHeld) return
        this.#tellFailed(error)
        this.#next(this.#retryMs(), instant(this.#context.seams))
      },
    )
    // A caller's clock threw, so that nothing is planned: the deadline ends the lease in time.
    renewal.catch((error) => this.#tellFailed(asLockError(error, 'renewal')))
  }

  #tellFailed(error: LockError): void {
    const { lockName, fencingToken } = this.#lease
    this.#context.emitter.emit('renewal-failed', { lockName, fencingToken, error })
  }

  /** The next renewal, counted from when this one started, unless one was planned meanwhile. */
  #next(delayMs: number, startedAt: Instant): void {
    if (!this.#lease.isHeld || this.#renewal !== null) return
    this.#planRenewal(Math.max(0, startedAt.nowMs + delayMs - this.#context.seams.nowMs()))
  }
}
