/**
 * Renewal: one keep-alive for all leases of a session, and one look at all places that ask.
 *
 * Renewals of a session that come while one is under way wait for it and go together. Leases are renewed
 * by their own watchdogs at times of their own; a session that was kept alive a short while ago is not
 * kept alive again, and the answer counts from that while ago.
 */
import type { Grant, RenewResult } from '../../core/backend.ts'
import { BackendUnavailableError, type LossReason } from '../../core/errors.ts'
import { requestTimeoutMsMax } from '../../core/validity.ts'
import { confirm, type Present, read } from './confirming.ts'
import type { Context } from './context.ts'
import type { Entry } from './entries.ts'
import { holdersKey } from './holding.ts'
import { ageMsOf, countsFromMs, type Session, secondsOf } from './sessions.ts'
import { inOrder, isCreatedAt, move, transaction } from './transactions.ts'
import { foundAt } from './value.ts'

interface Ask {
  readonly entry: Entry
  readonly resolve: (present: Present) => void
  readonly reject: (error: unknown) => void
}

/** Of the TTL: a keep-alive as young as that serves another renewal. */
const YOUNG_SHARE = 1 / 6
/** This often a place is looked for on the session that is kept alive for it. */
const TRIES_MAX = 3
const ASTRAY = 'etcd has the lock on another session than the one that is kept alive for it'

export class Renewals {
  readonly #context: () => Context
  readonly #asked = new Map<Session, Ask[]>()
  readonly #running = new Set<Session>()

  constructor(context: () => Context) {
    this.#context = context
  }

  async renew({ lockName, owner, fencingToken }: Grant, ttlMs: number): Promise<RenewResult> {
    const context = this.#context()
    const entry = context.entries.get(owner, lockName)
    if (entry?.state !== 'held' || entry.token !== fencingToken) {
      return this.#renewUnknown(lockName, owner, ttlMs)
    }
    if (secondsOf(ttlMs) * 1000 > entry.session.ttlMs && !(await lengthen(context, entry, ttlMs))) {
      return this.#lost(entry)
    }
    for (let tries = 1; ; tries++) {
      const { session } = entry
      const found = (await this.#join(entry)).get(entry)
      if (found?.revision !== entry.createRevision) return this.#lost(entry)
      if (found.lease === session.id) {
        const sentAtMs = countsFromMs(context.seams(), session)
        const { ttlMs: lifeMs } = session
        context.entries.setEnd(entry, Math.max(entry.endsAtMs, sentAtMs + lifeMs))
        return { kind: 'renewed', sentAtMs, ttlMs: lifeMs }
      }
      // A move to another session was done, and its answer lost; it may even have come late.
      if (!context.sessions.has(found.lease)) return this.#lost(entry)
      if (tries === TRIES_MAX) throw new BackendUnavailableError('down', ASTRAY)
      if (!(await moveTo(context, entry, session))) return this.#lost(entry)
    }
  }

  #join(entry: Entry): Promise<Present> {
    const { session } = entry
    return new Promise((resolve, reject) => {
      const asked = this.#asked.get(session)
      if (asked) asked.push({ entry, resolve, reject })
      else {
        this.#asked.set(session, [{ entry, resolve, reject }])
        // Those of one turn of the event loop go together.
        if (!this.#running.has(session)) queueMicrotask(() => void this.#run(session))
      }
    })
  }

  async #run(session: Session): Promise<void> {
    this.#running.add(session)
    for (;;) {
      const asked = this.#asked.get(session)
      if (!asked) break
      this.#asked.delete(session)
      try {
        const present = await this.#look(
          session,
          asked.map(({ entry }) => entry),
        )
        for (const { resolve } of asked) resolve(present)
      } catch (error) {
        for (const { reject } of asked) reject(error)
      }
    }
    this.#running.delete(session)
  }

  async #look(session: Session, entries: readonly Entry[]): Promise<Present> {
    const context = this.#context()
    const nowMs = context.seams().nowMs()
    if (ageMsOf(context.seams(), session) < session.ttlMs * YOUNG_SHARE) {
      const present = await read(context, entries, session.term, nowMs + requestTimeoutMsMax)
      if (present !== null) return present
    }
    return confirm(context, session, entries, requestTimeoutMsMax)
  }

  async #lost(entry: Entry): Promise<RenewResult> {
    const { entries } = this.#context()
    const { request, token, session } = entry
    const isHeld = entries.get(request.owner, request.lockName) === entry
    entries.drop(entry)
    const nobody = session.isOver ? 'session-ended' : isHeld ? 'revoked' : 'expired'
    return { kind: 'lost', reason: await this.#reason(request.lockName, token, nobody) }
  }

  /** Whoever holds the name now tells; `nobody` is the reason if nobody does. */
  async #reason(lockName: string, token: bigint, nobody: LossReason): Promise<LossReason> {
    const { client, keys } = this.#context()
    const range = inOrder(keys.rangeOf(lockName), 1)
    const answer = await client.read('Range', range, requestTimeoutMsMax, 'a look at the holder')
    const [first] = answer.kvs ?? []
    if (!first) return nobody
    const found = foundAt(first)
    if (found.revoked === token) return 'revoked'
    return found.isRest && keys.placeOf(lockName, first.key).kind === 'ours'
      ? 'expired'
      : 'superseded'
  }

  /** Of a grant that is not held here: by another process, or not at all. */
  async #renewUnknown(lockName: string, owner: string, ttlMs: number): Promise<RenewResult> {
    const context = this.#context()
    const found = await holdersKey(context, lockName, owner)
    if (found === null) {
      return { kind: 'lost', reason: await this.#reason(lockName, 0n, 'expired') }
    }
    const sentAtMs = context.seams().nowMs()
    const { TTL } = await context.client.keepAlive(found.lease ?? '0', requestTimeoutMsMax)
    const leftMs = Number(TTL ?? 0) * 1000
    // It may still be ours, but nobody here can promise for how long.
    return { kind: 'unchanged', sentAtMs, ttlMs: Math.min(ttlMs, leftMs) }
  }
}

/** To a session that lives longer. @returns Whether the place was still there. */
async function lengthen(context: Context, entry: Entry, ttlMs: number): Promise<boolean> {
  const { sessions, background } = context
  const before = entry.session
  const session = await (before.isOwn
    ? sessions.own(ttlMs, requestTimeoutMsMax)
    : sessions.shared(ttlMs, requestTimeoutMsMax))
  if (!(await moveTo(context, entry, session))) {
    if (session.isOwn) background(() => sessions.revoke(session))
    return false
  }
  entry.session = session
  if (before.isOwn) background(() => sessions.revoke(before))
  return true
}

/** @returns Whether the place was still there. */
async function moveTo({ client }: Context, entry: Entry, session: Session): Promise<boolean> {
  const { key, createRevision } = entry
  const there = transaction([isCreatedAt(key, createRevision)], [move(key, session.id)])
  const moved = await client.write('Txn', there, requestTimeoutMsMax, 'a renewal')
  return moved.succeeded === true
}
