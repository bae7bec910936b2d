/**
 * Attempts of this process whose answer is still out, and tombstones that it wrote.
 *
 * A tombstone takes some 110 bytes in Redis for its life; without a bound a store that answers too
 * late would be filled by those who give up. At the bound new attempts are refused, not cancels: an
 * attempt that was made must be undone.
 */
import type { AcquireRequest } from '../core/backend.ts'

export const TOMBSTONE_MS_MIN = 30_000
const TOMBSTONES_MAX = 100_000
/** For an owner that this process knows nothing of: twice the default TTL. */
const TOMBSTONE_MS_UNKNOWN = 60_000
/** Ends are counted in steps of this, rounded up. */
const STEP_MS = 10_000
/** Attempts that never have an answer (a client that lost them) must not fill memory. */
const PENDING_MAX = 100_000

type Sent = Pick<AcquireRequest, 'lockName' | 'owner' | 'ttlMs'>

/** An attempt that was sent and has no answer yet. What else was asked is not kept for that long. */
export class Pending implements Sent {
  readonly lockName: string
  readonly owner: string
  readonly ttlMs: number
  readonly sentAtMs: number
  isCancelled = false
  older: Pending | null = null
  newer: Pending | null = null

  constructor({ lockName, owner, ttlMs }: Sent, sentAtMs: number) {
    this.lockName = lockName
    this.owner = owner
    this.ttlMs = ttlMs
    this.sentAtMs = sentAtMs
  }
}

export class Attempts {
  readonly #tombstonesMax: number
  /**
   * A chain in the order of sending, of those that nobody cancelled. Not a Map: one that is nearly
   * empty is made anew at each `delete`. Who is cancelled was mostly sent first, and is found first.
   */
  #oldest: Pending | null = null
  #newest: Pending | null = null
  #pendingCount = 0
  readonly #cancelled = new Map<string, Pending>()
  /** Step of the end to how many tombstones end in it. */
  readonly #endings = new Map<number, number>()
  #tombstones = 0

  constructor(tombstonesMax: number = TOMBSTONES_MAX) {
    this.#tombstonesMax = tombstonesMax
  }

  /** Whether as many tombstones stand as may. */
  isFull(nowMs: number): boolean {
    if (this.#tombstones < this.#tombstonesMax) return false
    for (const [step, count] of this.#endings) {
      if (step * STEP_MS > nowMs) continue
      this.#endings.delete(step)
      this.#tombstones -= count
    }
    return this.#tombstones >= this.#tombstonesMax
  }

  /** @returns What `answered` is to be told. */
  sent(request: Sent, sentAtMs: number): Pending {
    // What is lost with the oldest is only how long its tombstone should live.
    if (this.#pendingCount >= PENDING_MAX && this.#oldest !== null) this.#unlink(this.#oldest)
    const pending = new Pending(request, sentAtMs)
    pending.older = this.#newest
    if (this.#newest === null) this.#oldest = pending
    else this.#newest.newer = pending
    this.#newest = pending
    this.#pendingCount += 1
    return pending
  }

  /** Of one that `isCancelled` a grant must not be used. */
  answered(pending: Pending): void {
    if (pending.isCancelled) this.#cancelled.delete(pending.owner)
    else this.#unlink(pending)
  }

  /**
   * @param ttlMs Of an owner whose TTL the caller knows.
   * @returns How long the tombstone has to live: max(2 x ttl, 30 s), in milliseconds.
   */
  cancelled(owner: string, nowMs: number, ttlMs?: number): number {
    const pending = this.#cancelled.get(owner) ?? this.#find(owner)
    if (pending !== null && !pending.isCancelled) {
      this.#unlink(pending)
      pending.isCancelled = true
      for (const oldest of this.#cancelled.keys()) {
        if (this.#cancelled.size < PENDING_MAX) break
        this.#cancelled.delete(oldest)
      }
      this.#cancelled.set(owner, pending)
    }
    const knownMs = ttlMs ?? pending?.ttlMs
    const lifeMs = knownMs === undefined ? TOMBSTONE_MS_UNKNOWN : 2 * knownMs
    return this.#count(Math.max(lifeMs, TOMBSTONE_MS_MIN), nowMs)
  }

  #find(owner: string): Pending | null {
    let one = this.#oldest
    while (one !== null && one.owner !== owner) one = one.newer
    return one
  }

  /** Does nothing for one that is not in the chain. */
  #unlink(pending: Pending): void {
    const { older, newer } = pending
    if (older === null && this.#oldest !== pending) return
    if (older === null) this.#oldest = newer
    else older.newer = newer
    if (newer === null) this.#newest = older
    else newer.older = older
    pending.older = pending.newer = null
    this.#pendingCount -= 1
  }

  #count(lifeMs: number, nowMs: number): number {
    const step = Math.ceil((nowMs + lifeMs) / STEP_MS)
    this.#endings.set(step, (this.#endings.get(step) ?? 0) + 1)
    this.#tombstones += 1
    return lifeMs
  }
}
