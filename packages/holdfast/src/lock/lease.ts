/**
 * A held lock, as its holder sees it.
 *
 *     held ──release()──▶ releasing ──▶ released
 *       └──deadline, store's word, revoke, maxHoldMs, close()──▶ lost
 *
 * Guarantees:
 * L1. Lost and released are final. A late answer never revives a lease.
 * L2. Signal, `assertValid`, `remainingMs`, `isHeld` and "lost" use one deadline (core/validity.ts).
 * L3. Exactly one of the events `lost` and `released` is emitted.
 * L4. Being lost deletes nothing in the store: the holder may still be working. The entry is deleted
 *     when its holder says that it has stopped, by `release()`, unless a lock delay was asked for and
 *     the lease expired.
 */
import { assert } from '../core/assert.ts'
import type { Grant, LockInfo, RenewResult } from '../core/backend.ts'
import { elapsedMs, type Instant, instant } from '../core/elapsed.ts'
import { InvalidArgumentError, LeaseLostError, type LossReason } from '../core/errors.ts'
import type { StaleListener } from '../core/guard.ts'
import type { Lease } from '../core/lease.ts'
import type { Settings } from '../core/options.ts'
import { started } from '../core/started.ts'
import { lifeMs, renewEveryMs, renewTimeoutMs } from '../core/validity.ts'
import type { Context } from './context.ts'
import type { Ended } from './pass-on.ts'
import { asLockError } from './request.ts'
import { Watchdog } from './watchdog.ts'

type State = 'held' | 'releasing' | 'released' | 'lost'

function ignore(): void {}

/** What follows from a TTL: how long an answer is good for, and when to ask again. */
export type Timing = Readonly<{ ttlMs: number; lifeMs: number; everyMs: number }>

/** Options that were left at their defaults follow the TTL; options that were given stay. */
function timingFor(settings: Settings, ttlMs: number): Timing {
  const life = lifeMs(ttlMs)
  const ownDeadline = settings.renewDeadlineMs < lifeMs(settings.ttlMs)
  const ownEvery = settings.renewEveryMs !== renewEveryMs(settings.ttlMs)
  const ownLifeMs = ownDeadline ? Math.min(settings.renewDeadlineMs, life) : life
  // A third of a long TTL may lie beyond an own deadline.
  const everyMs = Math.min(renewEveryMs(ttlMs), Math.max(1, Math.floor(ownLifeMs / 2)))
  const ownEveryMs =
    ttlMs < settings.ttlMs ? Math.min(settings.renewEveryMs, everyMs) : settings.renewEveryMs
  return { ttlMs, lifeMs: ownLifeMs, everyMs: ownEvery ? ownEveryMs : everyMs }
}

/** The store counts from when a request arrived; ours arrived at most this long after it left. */
const REQUEST_SPENT_MS = 2000
/** However much validity is left, a caller of `release()` is not kept longer. */
const RELEASE_BUDGET_MS_MAX = 2000

/** From when a lease counts, when that was found out, and how long its grant is worth at most. */
export type Beginning = Readonly<{ base: Instant; now: Instant; ttlMs: number }>

export class HeldLease implements Lease, StaleListener {
  readonly grant: Grant
  readonly settings: Settings
  timing: Timing
  readonly #context: Context
  readonly #watchdog: Watchdog
  /** Both clocks when the lease began; its own age is counted from here. */
  readonly #begin: Instant
  /** Both clocks before the request left whose answer the present deadline rests on. */
  #base: Instant
  /** From `#base` to the deadline, in milliseconds. */
  #lifeMs: number
  /** When the store's entry ends by itself at the latest: as promised, or asked for. */
  #endsAtMs: number
  #state: State = 'held'
  #reason: LossReason | null = null
  #heldMs = 0
  /** In the list of all leases. */
  #place: number
  #controller: AbortController | null = null
  #release: Promise<Ended> | null = null

  constructor(context: Context, settings: Settings, grant: Grant, { base, now, ttlMs }: Beginning) {
    this.#context = context
    this.settings = settings
    this.grant = grant
    this.timing = timingFor(settings, settings.ttlMs)
    this.#begin = this.#base = base
    this.#lifeMs = ttlMs === settings.ttlMs ? this.timing.lifeMs : timingFor(settings, ttlMs).lifeMs
    this.#endsAtMs = grant.sentAtMs + grant.ttlMs
    context.held.set(grant.lockName, this)
    this.#place = context.leases.push(this) - 1
    context.pulse.start()
    this.#watchdog = new Watchdog(context, this, now)
  }

  get lockName(): string {
    return this.grant.lockName
  }

  get fencingToken(): bigint {
    return this.grant.fencingToken
  }

  get owner(): string {
    return this.grant.owner
  }

  get source(): string {
    return this.grant.source
  }

  get isHeld(): boolean {
    return this.remainingMs() > 0
  }

  /** Made when first asked for: most leases never need one, and it doubles their size. */
  get signal(): AbortSignal {
    this.remainingMs()
    if (this.#controller === null) {
      this.#controller = new AbortController()
      if (this.#state === 'lost') this.#controller.abort(this.#lossError())
    }
    return this.#controller.signal
  }

  remainingMs(): number {
    return this.#state === 'held' ? this.remainingAt(instant(this.#context.seams)) : 0
  }

  /** The same, for whoever has just read the clocks. */
  remainingAt(now: Instant): number {
    const restMs = this.#restAt(now)
    if (restMs > 0) this.#watchdog?.noteWallClock(now.nowMs)
    return restMs
  }

  #restAt(now: Instant): number {
    if (this.#state !== 'held') return 0
    const restMs = this.#lifeMs - elapsedMs(this.#base, now)
    const holdMs = this.settings.maxHoldMs - elapsedMs(this.#begin, now)
    if (restMs <= 0 || holdMs <= 0) {
      this.lose(restMs <= 0 ? 'expired' : 'max-hold')
      return 0
    }
    return Math.min(restMs, holdMs)
  }

  assertValid(remainingMsMin = 0): void {
    if (typeof remainingMsMin !== 'number' || !(remainingMsMin >= 0)) {
      throw new InvalidArgumentError('remainingMsMin', remainingMsMin, 'milliseconds, at least 0')
    }
    const restMs = this.remainingMs()
    if (restMs === 0) throw this.#lossError()
    if (restMs < remainingMsMin) {
      const left = `${Math.floor(restMs)} ms left of the ${remainingMsMin} ms asked for`
      throw this.#lossError('expired', left)
    }
  }

  async renew(ttlMs: number = this.timing.ttlMs): Promise<void> {
    this.#context.options.readRenewTtl(ttlMs, this.settings.lockDelayMs)
    this.assertValid()
    try {
      await this.#watchdog.renewNow(ttlMs, false)
    } catch (error) {
      this.assertValid()
      throw error
    }
    this.assertValid()
    if (ttlMs === this.timing.ttlMs) return
    this.timing = timingFor(this.settings, ttlMs)
    this.#watchdog.replan()
  }

  release(): Promise<Ended> {
    const release = this.#release ?? started(() => this.#end())
    // The event tells of a failure; a caller that does not wait must not end the process.
    release.catch(ignore)
    if (this.#state === 'held') {
      // A caller's clock threw. Who releases has stopped: what is not renewed ends by itself.
      this.#watchdog.stop()
      return release
    }
    this.#release = release
    return release
  }

  async [Symbol.asyncDispose](): Promise<void> {
    // The event tells of a failure.
    await this.release().catch(() => {})
  }

  /** A renewal leaves; the store may do it whether we hear of it or not. */
  onRenewalSent(ttlMs: number): void {
    this.#endsAtMs = Math.max(this.#endsAtMs, this.#context.seams.nowMs() + ttlMs)
  }

  /** L1: an answer to a renewal that was asked for at `from`, however late it comes. */
  onRenewal(answer: RenewResult, from: Instant, ttlMs: number): void {
    if (this.remainingMs() === 0) return
    if (answer.kind === 'lost') return this.lose(answer.reason)
    assert(Number.isFinite(answer.ttlMs), 'a renewal says how long it lasts')
    assert(answer.sentAtMs <= this.#context.seams.nowMs(), 'a renewal counts from before it left')
    const { lockName, fencingToken } = this
    this.#context.emitter.emit('renewed', { lockName, fencingToken })
    if (answer.kind === 'unchanged') return
    this.#endsAtMs = Math.max(this.#endsAtMs, answer.sentAtMs + answer.ttlMs)
    const bootMs = from.bootMs + (answer.sentAtMs - from.nowMs)
    const base = { nowMs: answer.sentAtMs, bootMs }
    const worthMs = Math.min(ttlMs, answer.ttlMs - this.settings.lockDelayMs)
    const life = timingFor(this.settings, worthMs).lifeMs
    // Two answers may cross: the deadline is the later of what each promised. What is left counts,
    // not the instant on one clock: a suspend since the older base has used it up.
    const now = instant(this.#context.seams)
    if (life - elapsedMs(base, now) <= this.#lifeMs - elapsedMs(this.#base, now)) return
    this.#base = base
    this.#lifeMs = life
  }

  /** Ends the lease without its holder's will. Does nothing when it is over already (L1). */
  lose(reason: LossReason): void {
    if (this.#state !== 'held') return
    this.#state = 'lost'
    this.#reason = reason
    this.#leave(instant(this.#context.seams))
    this.#forget()
    const { lockName, fencingToken } = this
    this.#controller?.abort(this.#lossError())
    this.#context.emitter.emit('lost', { lockName, fencingToken, heldMs: this.#heldMs, reason })
    this.#context.waits.ended(lockName)
  }

  /** The loss as an error, for `using`; null while held, or once released. */
  loss(settled?: PromiseSettledResult<unknown>): LeaseLostError | null {
    this.remainingMs()
    return this.#state === 'lost' ? this.#lossError(undefined, undefined, settled) : null
  }

  /** A stale refusal of a lease that the store still confirms: its tokens went back. */
  onStaleRefusal(resource: string, highest: bigint): void {
    if (!this.isHeld) return
    const { backend, emitter } = this.#context
    const { lockName, fencingToken } = this
    const warn = (info: LockInfo | null): void => {
      if (info?.fencingToken !== fencingToken || highest <= fencingToken) return
      const advice =
        `the store grants token ${fencingToken}, but the guard of "${resource}" has seen ${highest}: ` +
        `make later tokens larger with backend.raise('${lockName}', ${highest}n)`
      emitter.emit('warning', { code: 'token-regression', advice, lockName, highest })
    }
    // A store that cannot answer confirms nothing, so there is nothing to report.
    started(() => backend.inspect(lockName)).then(warn, () => {})
  }

  belongsTo(context: Context): boolean {
    return this.#context === context
  }

  /** Whether `error` is this lease's own loss, thrown on by whoever was told of it. */
  isOwnLoss(error: unknown): boolean {
    const own = (value: unknown): boolean =>
      value instanceof LeaseLostError &&
      value.lockName === this.lockName &&
      value.fencingToken === this.fencingToken
    return own(error) || own((error as { cause?: unknown } | null | undefined)?.cause)
  }

  #end(): Promise<Ended> {
    const now = instant(this.#context.seams)
    const restMs = this.#restAt(now)
    if (this.#state === 'lost') return this.#cleanUp()
    this.#state = 'releasing'
    // Sent first: what else has to be done is done while the store works.
    const ending = this.#endInStore(restMs, now)
    this.#leave(now)
    return ending.then(
      (answer) => this.#onEnded(answer),
      (error) => this.#onEndFailed(error),
    )
  }

  #onEnded(answer: Ended): Ended {
    this.#forget()
    if (answer === 'released') {
      this.#confirm()
      return answer
    }
    // The store had given it away, or dropped it, before we said that we were done.
    this.#state = 'lost'
    this.#reason = 'expired'
    this.#controller?.abort(this.#lossError())
    const { lockName, fencingToken } = this
    const lost = { lockName, fencingToken, heldMs: this.#heldMs, reason: 'expired' } as const
    this.#context.emitter.emit('lost', lost)
    return answer
  }

  #onEndFailed(error: unknown): never {
    this.#forget()
    const { emitter, waits } = this.#context
    const { lockName, fencingToken } = this
    const failure = asLockError(error, 'release')
    emitter.emit('release-failed', { lockName, fencingToken, error: failure })
    this.#confirm()
    waits.ended(lockName)
    throw failure
  }

  /** L3: once, and before a successor in this process hears of its own grant. */
  #confirm(): void {
    if (this.#state !== 'releasing') return
    this.#state = 'released'
    const { lockName, fencingToken } = this
    this.#context.emitter.emit('released', { lockName, fencingToken, heldMs: this.#heldMs })
  }

  #endInStore(restMs: number, { nowMs }: Instant): Promise<Ended> {
    const { seams } = this.#context
    const { minHoldMs } = this.settings
    // With no validity left one request is still worth it: it frees the name for others.
    const leastMs = renewTimeoutMs(this.timing.ttlMs)
    const budgetMs = Math.min(Math.max(restMs, leastMs), RELEASE_BUDGET_MS_MAX)
    return this.#context.endGrant({
      grant: this.grant,
      keepForMs: () =>
        minHoldMs > 0 ? Math.max(0, Math.ceil(minHoldMs - (seams.nowMs() - this.#begin.nowMs))) : 0,
      budgetMs,
      sureUntilMs: nowMs + restMs,
      endsAtMs: this.#endsAtMs + REQUEST_SPENT_MS,
      onHandedOver: () => this.#confirm(),
    })
  }

  /** L4: the holder of a lost lease has stopped. */
  async #cleanUp(): Promise<'not-held'> {
    const keepsDelay = this.settings.lockDelayMs > 0 && this.#reason === 'expired'
    // A failure changes nothing for the caller: the lease is lost, and its entry ends by itself.
    if (!keepsDelay) await this.#endInStore(0, instant(this.#context.seams)).catch(() => {})
    return 'not-held'
  }

  #leave(now: Instant): void {
    const { leases } = this.#context
    this.#heldMs = elapsedMs(this.#begin, now)
    this.#watchdog?.stop()
    // The last one takes its place. A Set that is nearly empty is made anew by each `delete`.
    const last = leases.pop() as HeldLease
    if (last === this) return
    leases[this.#place] = last
    last.#place = this.#place
  }

  #forget(): void {
    this.#context.held.remove(this.lockName, this)
  }

  #lossError(
    reason: LossReason = this.#reason ?? 'session-ended',
    detail?: string,
    settled?: PromiseSettledResult<unknown>,
  ): LeaseLostError {
    const { lockName, fencingToken } = this
    const heldMs = this.#state === 'held' ? this.#ageMs() : this.#heldMs
    const wasReleased = this.#state === 'releasing' || this.#state === 'released'
    const said = detail ?? (wasReleased ? 'it was released' : undefined)
    return new LeaseLostError({ lockName, fencingToken, heldMs, reason, settled, detail: said })
  }

  #ageMs(): number {
    return elapsedMs(this.#begin, instant(this.#context.seams))
  }
}

/**
 * For tests of applications: loses a lease of this package as if `reason` had happened.
 *
 * @returns false when it was over already, or is not a lease of this copy of the package.
 */
export function loseFromOutside(lease: Lease, reason: LossReason): boolean {
  if (!(lease instanceof HeldLease) || !lease.isHeld) return false
  lease.lose(reason)
  return true
}
