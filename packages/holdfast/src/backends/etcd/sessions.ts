/**
 * Leases of etcd, called sessions here because Holdfast's leases are another thing.
 *
 * Guarantees:
 * N1. A session counts from before the request left that made it, or kept it alive as confirming.ts
 *     proves it. `confirmed` never goes back. Time that the machine slept through counts.
 * N2. A session that is handed out has been confirmed within half of its TTL, or less.
 * N3. No session is left behind: an id is chosen here, before the request leaves, so that one whose
 *     answer was lost is revoked unseen (B043).
 * N4. What is kept nowhere alive ends by itself: a session is kept alive by its use and by the renewals
 *     of its entries, not by a timer.
 *
 * Rejected: an id that etcd chooses, which nobody knows when the answer is lost.
 */
import { isLeaseGone, isLeaseTaken } from '../../clients/etcd/errors.ts'
import { assert } from '../../core/assert.ts'
import { elapsedMs, type Instant, instant } from '../../core/elapsed.ts'
import { BackendUnavailableError } from '../../core/errors.ts'
import type { Seams } from '../../core/seams.ts'
import { requestTimeoutMsMax } from '../../core/validity.ts'
import { confirm } from './confirming.ts'
import type { Context } from './context.ts'

export interface Session {
  /** Decimal. */
  readonly id: string
  readonly hex: string
  /** As granted, which may be more than was asked for. */
  readonly ttlMs: number
  /** For one entry alone. */
  readonly isOwn: boolean
  /** When it was last known to begin its life anew, on both clocks. */
  confirmed: Instant
  /** The raft term in which it was last confirmed. */
  term: string
  /** It has ended in etcd, and every place on it with it. */
  isOver: boolean
  /** How many keys of cancelled owners lie on it. */
  cancelCount: number
  refreshing: Promise<unknown> | null
}

/** A session with more keys of cancelled owners takes no new entries, so that they end with it. */
const CANCELS_MAX = 1000
/** Of its TTL: from then on a session is refreshed beside its use, or before it. */
const REFRESH_SHARE = 1 / 3
const STALE_SHARE = 1 / 2
const DRAWS_MAX = 10
/** With less time left a grant is not asked for again. */
const AGAIN_MS_MIN = 200

export class Sessions {
  readonly #context: () => Context
  /** By the whole seconds that were asked for. */
  readonly #shared = new Map<number, Session>()
  readonly #opening = new Map<number, Promise<Session>>()
  readonly #all = new Map<string, Session>()

  constructor(context: () => Context) {
    this.#context = context
  }

  /** Whether an id of a lease, in decimal digits, is one of our shared sessions. */
  isShared(id: string | undefined): boolean {
    const session = id === undefined ? undefined : this.#all.get(id)
    return session !== undefined && !session.isOwn
  }

  /** Whether we have opened it, and it has not ended as far as we know. */
  has(id: string): boolean {
    return this.#all.has(id)
  }

  /** The session that entries of that TTL share: N2. */
  async shared(ttlMs: number, timeoutMs: number): Promise<Session> {
    const seconds = secondsOf(ttlMs)
    const session = this.#shared.get(seconds)
    if (session && !this.#isSpent(session)) {
      const ageMs = ageMsOf(this.#context().seams(), session)
      if (ageMs < session.ttlMs * REFRESH_SHARE) return session
      const refreshing = this.#refresh(session, timeoutMs)
      if (ageMs < session.ttlMs * STALE_SHARE) {
        refreshing.catch(() => undefined)
        return session
      }
      await refreshing
      if (!session.isOver) return session
    }
    return this.#open(seconds, timeoutMs)
  }

  /** One for one entry, whose TTL begins now. */
  own(ttlMs: number, timeoutMs: number): Promise<Session> {
    return this.#grant(secondsOf(ttlMs), true, timeoutMs)
  }

  /** For keys of cancelled owners whose own session is not known; nobody keeps it alive. */
  async brief(ttlMs: number): Promise<string> {
    const { id } = await this.#grant(secondsOf(ttlMs), true, requestTimeoutMsMax)
    this.#all.delete(id)
    return id
  }

  /** It has ended in etcd. */
  end(session: Session): void {
    this.lapsed(session)
    for (const [seconds, one] of this.#shared) if (one === session) this.#shared.delete(seconds)
    this.#context().entries.sessionEnded(session)
  }

  /** One of its own whose life is over, and which nobody has ended. */
  lapsed(session: Session): void {
    session.isOver = true
    this.#all.delete(session.id)
  }

  /** Ends it in etcd, with all places on it. */
  async revoke(session: Session): Promise<void> {
    this.lapsed(session)
    await this.#revokeId(session.id)
  }

  /** Those on which nothing is held; the others end by themselves. */
  async close(): Promise<void> {
    const { entries } = this.#context()
    const unused = [...this.#all.values()].filter((session) => !entries.holdsOn(session))
    this.#shared.clear()
    await Promise.allSettled(unused.map((session) => this.revoke(session)))
  }

  /** It is over, about to be, or full. One that no entry is on any more ends by itself. */
  #isSpent(session: Session): boolean {
    const { seams } = this.#context()
    if (ageMsOf(seams(), session) >= session.ttlMs) this.end(session)
    return session.isOver || session.cancelCount >= CANCELS_MAX
  }

  #refresh(session: Session, timeoutMs: number): Promise<unknown> {
    session.refreshing ??= confirm(this.#context(), session, [], timeoutMs).finally(() => {
      session.refreshing = null
    })
    return session.refreshing
  }

  #open(seconds: number, timeoutMs: number): Promise<Session> {
    const opening = this.#opening.get(seconds)
    if (opening) return opening
    const fresh = this.#grant(seconds, false, timeoutMs).then(
      (session) => {
        this.#opening.delete(seconds)
        this.#shared.set(seconds, session)
        return session
      },
      (error: unknown) => {
        this.#opening.delete(seconds)
        throw error
      },
    )
    this.#opening.set(seconds, fresh)
    return fresh
  }

  async #grant(seconds: number, isOwn: boolean, timeoutMs: number): Promise<Session> {
    const { client, seams, background } = this.#context()
    const untilMs = seams().nowMs() + timeoutMs
    for (let draws = 1; ; draws++) {
      const id = drawId(seams().nonce())
      const sent = instant(seams())
      try {
        const answer = await client.write(
          'LeaseGrant',
          { TTL: seconds, ID: id.toString() },
          untilMs - sent.nowMs,
          'the grant of a session',
        )
        const ttlMs = Number(answer.TTL ?? 0) * 1000
        assert(ttlMs >= seconds * 1000, 'etcd grants a session at least the TTL that was asked for')
        const term = answer.header.raft_term ?? ''
        const session: Session = {
          ...{ id: id.toString(), hex: id.toString(16), ttlMs, isOwn },
          ...{ confirmed: sent, term, isOver: false, cancelCount: 0, refreshing: null },
        }
        this.#all.set(session.id, session)
        return session
      } catch (error) {
        if (isLeaseTaken(error) && draws < DRAWS_MAX) continue
        if (error instanceof BackendUnavailableError) throw error
        // N3.
        background(() => this.#revokeId(id.toString()))
        // Another member may do it: nothing hangs on the one that nobody knows of.
        if (untilMs - seams().nowMs() > AGAIN_MS_MIN && draws < DRAWS_MAX) continue
        // No place was asked for: nothing of the lock can have been applied.
        const words = 'etcd gave no answer to the grant of a session'
        throw new BackendUnavailableError('down', words, { cause: error })
      }
    }
  }

  async #revokeId(ID: string): Promise<void> {
    const { client } = this.#context()
    const what = 'the end of a session'
    await client.write('LeaseRevoke', { ID }, requestTimeoutMsMax, what).catch((error: unknown) => {
      if (!isLeaseGone(error)) throw error
    })
  }
}

/** 63 random bits; never 0, which would ask etcd to choose. */
function drawId(nonce: string): bigint {
  const id = Buffer.from(nonce, 'base64url').readBigUInt64BE() >> 1n
  return id === 0n ? 1n : id
}

/** How much of its life is over. */
export function ageMsOf(seams: Seams, { confirmed }: Session): number {
  return elapsedMs(confirmed, instant(seams))
}

/**
 * What a grant or a renewal on it counts from, on the monotonic clock: earlier by as much as the machine
 * has slept since. The engine knows what was slept since it asked, and not what before.
 */
export function countsFromMs(seams: Seams, session: Session): number {
  const now = instant(seams)
  const { nowMs } = session.confirmed
  const sleptMs = elapsedMs(session.confirmed, now) - (now.nowMs - nowMs)
  return nowMs - sleptMs
}

export function secondsOf(ttlMs: number): number {
  return Math.max(1, Math.ceil(ttlMs / 1000))
}
