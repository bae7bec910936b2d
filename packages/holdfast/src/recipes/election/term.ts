/**
 * One leadership, from the grant to its end.
 *
 *     leading ──the campaign's signal──▶ draining ──drainMs──▶ over
 *        └──resign(), loss, the end of the loop's body──────────▲
 *
 * Guarantees:
 * T1. The signal has aborted before the lease is given back, whoever ends the term: whoever works by it
 *     never works beside the next leader on that account.
 * T2. Draining ends the signal, not the lease: it is renewed until the body ends or `drainMs` is over.
 *     After a loss there is no such grace.
 * T3. Over is final, and nothing of a term is left armed then.
 * T4. Proclamations are applied in the order of their calls.
 */
import type { Fenced } from '../../core/backend.ts'
import { InvalidArgumentError, LeaseLostError, OutcomeUnknownError } from '../../core/errors.ts'
import type { StaleListener } from '../../core/guard.ts'
import type { Lease, Locks } from '../../core/lease.ts'
import { checkValue } from '../../core/options.ts'
import type { Seams } from '../../core/seams.ts'
import { started } from '../../core/started.ts'
import { requestTimeoutMsMax } from '../../core/validity.ts'
import { onAbort } from '../../lock/aborts.ts'
import { asLockError } from '../../lock/request.ts'
import type { Term } from './contract.ts'

type Ended = 'released' | 'not-held'

export interface Candidacy {
  readonly locks: Locks
  readonly seams: Seams
  readonly drainMs: number
  /** The campaign's own. */
  readonly signal: AbortSignal | undefined
}

export class HeldTerm implements Term, StaleListener {
  readonly #lease: Lease
  readonly #candidacy: Candidacy
  readonly #ledFromMs: number
  readonly #controller = new AbortController()
  #unlisten: (() => void)[] = []
  #resigned: Promise<Ended> | null = null
  #proclaimed: Promise<unknown> = Promise.resolve()
  #wasLost = false

  constructor(lease: Lease, candidacy: Candidacy) {
    this.#lease = lease
    this.#candidacy = candidacy
    this.#ledFromMs = candidacy.seams.nowMs()
    const lost = lease.signal
    this.#unlisten.push(onAbort(lost, () => this.#onLost(lost.reason)))
    const { signal } = candidacy
    if (signal && !this.#wasLost) {
      this.#unlisten.push(onAbort(signal, () => this.#drain(signal.reason)))
    }
  }

  /** The lease behind a term of this package; undefined for anything else. */
  static leaseOf(term: object): Lease | undefined {
    return #lease in term ? term.#lease : undefined
  }

  get lockName(): string {
    return this.#lease.lockName
  }

  get fencingToken(): bigint {
    return this.#lease.fencingToken
  }

  get owner(): string {
    return this.#lease.owner
  }

  get source(): string {
    return this.#lease.source
  }

  get isHeld(): boolean {
    return this.#lease.isHeld
  }

  /** Whether the store or the clock ended it, rather than the leader. */
  get wasLost(): boolean {
    return this.#wasLost
  }

  get signal(): AbortSignal {
    // A loss that nobody has noticed yet is noticed now.
    this.#lease.remainingMs()
    return this.#controller.signal
  }

  remainingMs(): number {
    return this.#lease.remainingMs()
  }

  assertValid(remainingMsMin?: number): void {
    this.#lease.assertValid(remainingMsMin)
  }

  renew(ttlMs?: number): Promise<void> {
    return this.#lease.renew(ttlMs)
  }

  async proclaim(value: string): Promise<void> {
    if (checkValue(value) === undefined) {
      throw new InvalidArgumentError('value', value, 'text: what the leader says of itself')
    }
    const turn = this.#proclaimed.then(() => this.#proclaim(value))
    // One that failed holds nobody up.
    this.#proclaimed = turn.catch(() => {})
    await turn
  }

  resign(): Promise<Ended> {
    this.#resigned ??= started(() => this.#end())
    return this.#resigned
  }

  async [Symbol.asyncDispose](): Promise<void> {
    // The event `release-failed` tells of it, and the entry ends with its TTL.
    await this.resign().catch(() => {})
  }

  /** A guard's refusal is the lease's to explain. */
  onStaleRefusal(resource: string, highest: bigint): void {
    const listener = this.#lease as Partial<StaleListener>
    listener.onStaleRefusal?.(resource, highest)
  }

  /** T1, T3. */
  #end(): Promise<Ended> {
    this.#forget()
    this.#controller.abort(this.#endError())
    const released = this.#lease.release()
    // Whoever does not wait for it must not end the process.
    released.catch(() => {})
    return released
  }

  #onLost(reason: unknown): void {
    this.#wasLost = true
    this.#forget()
    this.#controller.abort(reason)
  }

  /** T2. */
  #drain(reason: unknown): void {
    const { seams, drainMs } = this.#candidacy
    // Before the signal: who hears of it may end the term.
    this.#unlisten.push(seams.after(drainMs, () => void this[Symbol.asyncDispose](), true))
    this.#controller.abort(reason)
  }

  #forget(): void {
    for (const unlisten of this.#unlisten.splice(0)) unlisten()
  }

  #endError(): LeaseLostError {
    const { lockName, fencingToken } = this
    const heldMs = this.#candidacy.seams.nowMs() - this.#ledFromMs
    const detail = 'the leader resigned'
    return new LeaseLostError({ lockName, fencingToken, heldMs, reason: 'session-ended', detail })
  }

  /** T4: one at a time. */
  async #proclaim(value: string): Promise<void> {
    const { lockName, fencingToken, owner, source } = this.#lease
    this.assertValid()
    const answer = await this.#answer({ lockName, fencingToken, owner, source }, value)
    if (answer === 'proclaimed') return
    // The lease says why it is over, and tells its holder by the way.
    await this.#lease.renew()
    throw new OutcomeUnknownError('the store did not take the value, yet it renewed the term')
  }

  /** The store's, within the time of one request and the validity. */
  #answer(fenced: Fenced, value: string): Promise<'proclaimed' | 'not-held'> {
    const { locks, seams } = this.#candidacy
    const timeoutMs = Math.min(requestTimeoutMsMax, this.remainingMs())
    return new Promise((resolve, reject) => {
      const noAnswer = (): void =>
        reject(new OutcomeUnknownError(`no answer to a proclamation within ${timeoutMs} ms`))
      const cancel = seams.after(timeoutMs, noAnswer, true)
      started(() => locks.backend.proclaim(fenced, value))
        .finally(cancel)
        .then(resolve, (error) => reject(asLockError(error, 'proclamation')))
    })
  }
}
