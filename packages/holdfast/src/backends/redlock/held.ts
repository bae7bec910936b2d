/** What this process knows of its own owners on each node: an attempt first, then a lease. */
import type { AcquireRequest } from '../../core/backend.ts'
import type { LossReason } from '../../core/errors.ts'
import type { LockKeys } from '../../wire/keys.ts'

/** One owner on one node. */
export class Share {
  /** Recorded there, as last told; null: nothing of ours is known to be there. */
  token: bigint | null = null
  /** When that was told, on our clock. */
  #toldAtMs: number = Number.NEGATIVE_INFINITY
  /** How long the entry lives at least, on our clock: from before a request left. */
  untilMs: number = Number.NEGATIVE_INFINITY
  /** R9. Only what was sent after this counts: the node has said that it is not ours. */
  barrierMs: number = Number.NEGATIVE_INFINITY
  /** Acquires and repairs that had no answer: one of them may still arrive. */
  unanswered = 0
  /** The acquire's answer is expected any moment, and the attempt will hear of it. */
  isAwaited = false
  /** A release is under way, sent after everything else. */
  isEnding = false
  /** The grant was answered after that. */
  wasLate = false
  /** The node has confirmed that it took the entry back. */
  isReleased = false
  /** Why it is not ours, as the node said. */
  loss: LossReason | null = null

  /** Whether there may be an entry of ours. */
  get mayHold(): boolean {
    return this.token !== null || this.unanswered > 0
  }

  /** @param sentAtMs Of the request whose answer says that the entry lives until `untilMs`. */
  lives(sentAtMs: number, untilMs: number): void {
    if (sentAtMs > this.barrierMs && untilMs > this.untilMs) this.untilMs = untilMs
  }

  tells(token: bigint, nowMs: number): void {
    this.token = token
    this.#toldAtMs = nowMs
  }

  /**
   * Nothing of ours was there when a request of then was done. What is unanswered, or was answered
   * since, may have been done after it: requests of other connections come in any order.
   */
  isMissed(sentAtMs: number): void {
    if (this.unanswered === 0 && sentAtMs > this.#toldAtMs) this.token = null
  }

  takenBack(): void {
    this.token = null
    this.untilMs = Number.NEGATIVE_INFINITY
    this.isReleased = true
  }

  /** The node has said that it does not count for us any more. */
  ends(nowMs: number, loss: LossReason): void {
    this.untilMs = Number.NEGATIVE_INFINITY
    this.barrierMs = nowMs
    this.loss = loss
  }
}

/** What is kept of a request for as long as its owner lives. */
export type Kept = Pick<AcquireRequest, 'lockName' | 'owner' | 'ttlMs' | 'onLost'>

export class Held {
  readonly request: Kept
  readonly keys: LockKeys
  /** Null: not known here, so that nothing can be repaired. */
  readonly metadata: string | null
  /** Before anything was sent. */
  readonly sentAtMs: number
  readonly shares: readonly Share[]
  /** `asking`, `held`, and `over` once it is given back, cancelled or lost: nothing is repaired then. */
  phase: 'asking' | 'held' | 'over' = 'asking'
  /** Confirmed by a quorum; 0 before. */
  token = 0n
  /** The number of the last value that was proclaimed; 0: none was. */
  proclamation = 0
  /** The arguments of that value, until a quorum has it: the next renewal tells it again. */
  owedValue: string[] | null = null

  constructor(
    request: Kept,
    keys: LockKeys,
    metadata: string | null,
    sentAtMs: number,
    nodeCount: number,
  ) {
    this.request = request
    this.keys = keys
    this.metadata = metadata
    this.sentAtMs = sentAtMs
    const shares: Share[] = []
    for (let node = 0; node < nodeCount; node++) shares.push(new Share())
    this.shares = shares
  }

  get owner(): string {
    return this.request.owner
  }

  /** The largest token that any node told. */
  highest(): bigint {
    let highest = this.token
    for (const { token } of this.shares) if (token !== null && token > highest) highest = token
    return highest
  }

  /**
   * The quorum-th largest of what each node grants. At any time before it a quorum keeps our entry.
   *
   * @param token Only nodes that record it count; null: all do.
   */
  untilMs(quorum: number, token: bigint | null = null): number {
    let untilMs = Number.NEGATIVE_INFINITY
    for (const share of this.shares) {
      if (share.untilMs > untilMs && this.#countUntil(share.untilMs, token) >= quorum) {
        untilMs = share.untilMs
      }
    }
    return untilMs
  }

  #countUntil(untilMs: number, token: bigint | null): number {
    let count = 0
    for (const share of this.shares) {
      if (share.untilMs >= untilMs && (token === null || share.token === token)) count += 1
    }
    return count
  }

  /** How many nodes are known not to count for us. */
  deadCount(): number {
    let count = 0
    for (const { untilMs } of this.shares) if (untilMs === Number.NEGATIVE_INFINITY) count += 1
    return count
  }

  lossReason(): LossReason {
    const losses = new Set(this.shares.map(({ loss }) => loss))
    if (losses.has('revoked')) return 'revoked'
    return losses.has('superseded') ? 'superseded' : 'expired'
  }
}

/** Owners whose end nobody told: a lease may run out in a process that forgot it. */
const HELD_MAX = 100_000

export class Holdings {
  readonly #byOwner = new Map<string, Held>()

  get size(): number {
    return this.#byOwner.size
  }

  get(owner: string): Held | null {
    return this.#byOwner.get(owner) ?? null
  }

  add(held: Held): void {
    // What is lost with the oldest is only what its nodes answered last.
    if (this.#byOwner.size >= HELD_MAX) {
      for (const oldest of this.#byOwner.keys()) {
        this.#byOwner.delete(oldest)
        break
      }
    }
    this.#byOwner.set(held.owner, held)
  }

  remove(owner: string): void {
    this.#byOwner.delete(owner)
  }
}
