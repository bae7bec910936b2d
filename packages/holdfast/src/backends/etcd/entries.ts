/**
 * What this process has asked for, waits for and holds: one entry for each owner.
 *
 * An entry is here before its request leaves, so that a cancel knows the key. A held one whose time is
 * over is deleted in etcd: the session under it may be kept alive by others, and would keep the name
 * taken for ever. That comes after the deadline of its holder, like every expiry.
 */
import type { AcquireRequest, Grant } from '../../core/backend.ts'
import { requestTimeoutMsMax } from '../../core/validity.ts'
import { tokenAt } from './base.ts'
import type { Context } from './context.ts'
import { countsFromMs, type Session } from './sessions.ts'
import { isCreatedAt, remove, transaction } from './transactions.ts'

export interface Entry {
  readonly request: AcquireRequest
  readonly key: Buffer
  session: Session
  /** `asking`: no answer yet; nobody knows whether its place is there. `over`: it is being deleted. */
  state: 'asking' | 'waiting' | 'held' | 'over'
  /** When its place was made; 0: not known to be. */
  createRevision: bigint
  token: bigint
  /** When its life is over, on the clock of the seams. */
  endsAtMs: number
  /** While it waits: its place is gone, or its session. */
  onVanished: (() => void) | null
  /** Its owner was cancelled: it is not asked for on another session. */
  isCancelled: boolean
}

/** An attempt without an answer is cancelled by the engine long before. */
const ASKING_MS_MAX = 120_000
/** A place whose time is over, and that could not be deleted, is deleted again after this. */
const EXPIRE_AGAIN_MS = 1000

export class Entries {
  readonly #context: () => Context
  readonly #byOwner = new Map<string, Entry>()
  #sweepAtMs = Number.POSITIVE_INFINITY
  #cancelSweep: (() => void) | null = null
  #isClosed = false

  constructor(context: () => Context) {
    this.#context = context
  }

  get(owner: string, lockName: string): Entry | null {
    const entry = this.#byOwner.get(owner)
    return entry?.request.lockName === lockName ? entry : null
  }

  /** A new one, which asks. */
  add(request: AcquireRequest, session: Session): Entry {
    const { keys, seams } = this.#context()
    const entry: Entry = {
      request,
      key: keys.placeKey(request.lockName, session.hex, request.owner),
      session,
      state: 'asking',
      createRevision: 0n,
      token: 0n,
      endsAtMs: seams().nowMs() + ASKING_MS_MAX,
      onVanished: null,
      isCancelled: false,
    }
    this.#byOwner.set(request.owner, entry)
    return entry
  }

  /** Its place was made at that revision, under that base. */
  placed(entry: Entry, revision: bigint, base: bigint): void {
    entry.createRevision = revision
    entry.token = tokenAt(revision, base)
  }

  /** It is the first in its queue. Its life counts from when its session was last confirmed. */
  granted(entry: Entry): Grant {
    const { source, seams } = this.#context()
    const { session, request, token } = entry
    const sentAtMs = countsFromMs(seams(), session)
    const { ttlMs } = session
    entry.state = 'held'
    entry.onVanished = null
    this.setEnd(entry, sentAtMs + ttlMs)
    const { lockName, owner } = request
    return { lockName, owner, fencingToken: token, source: source(), ttlMs, sentAtMs }
  }

  setEnd(entry: Entry, endsAtMs: number): void {
    entry.endsAtMs = endsAtMs
    this.#planSweep(endsAtMs)
  }

  drop(entry: Entry): void {
    if (this.#byOwner.get(entry.request.owner) === entry) this.#byOwner.delete(entry.request.owner)
  }

  holdsOn(session: Session): boolean {
    for (const entry of this.#byOwner.values()) {
      if (entry.session === session && entry.state === 'held') return true
    }
    return false
  }

  waitingOn(session: Session): Entry[] {
    return [...this.#byOwner.values()].filter(
      (entry) => entry.session === session && entry.state === 'waiting',
    )
  }

  sessionEnded(session: Session): void {
    for (const entry of [...this.#byOwner.values()]) {
      if (entry.session !== session) continue
      if (entry.state === 'waiting') entry.onVanished?.()
      if (entry.state === 'over') this.drop(entry)
      if (entry.state !== 'held') continue
      this.drop(entry)
      entry.request.onLost('session-ended')
    }
  }

  close(): void {
    this.#isClosed = true
    this.#cancelSweep?.()
    this.#cancelSweep = null
  }

  #planSweep(atMs: number): void {
    if (atMs >= this.#sweepAtMs && this.#cancelSweep !== null) return
    const { seams } = this.#context()
    this.#cancelSweep?.()
    this.#sweepAtMs = atMs
    this.#cancelSweep = seams().after(atMs - seams().nowMs(), () => this.#sweep())
  }

  #sweep(): void {
    this.#cancelSweep = null
    const nowMs = this.#context().seams().nowMs()
    let nextMs = Number.POSITIVE_INFINITY
    for (const entry of [...this.#byOwner.values()]) {
      if (entry.state === 'waiting') continue
      if (entry.endsAtMs > nowMs) nextMs = Math.min(nextMs, entry.endsAtMs)
      else this.#expire(entry)
    }
    if (nextMs < Number.POSITIVE_INFINITY) this.#planSweep(nextMs)
  }

  #expire(entry: Entry): void {
    const { sessions, background } = this.#context()
    const { state, session } = entry
    if (state === 'asking' || session.isOwn || session.isOver) {
      this.drop(entry)
      // What has a session of its own ends with it.
      if (session.isOwn) sessions.lapsed(session)
      return
    }
    entry.state = 'over'
    entry.endsAtMs = Number.POSITIVE_INFINITY
    background(() => this.#remove(entry))
  }

  /** Again and again, or the session that others keep alive would keep the name taken. */
  async #remove(entry: Entry): Promise<void> {
    const { client, seams } = this.#context()
    const end = transaction([isCreatedAt(entry.key, entry.createRevision)], [remove(entry.key)])
    try {
      await client.write('Txn', end, requestTimeoutMsMax, 'the end of an expired lock')
      this.drop(entry)
    } catch {
      if (!this.#isClosed) this.setEnd(entry, seams().nowMs() + EXPIRE_AGAIN_MS)
    }
  }
}
