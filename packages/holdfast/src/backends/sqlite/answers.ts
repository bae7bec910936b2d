/** What a transaction answers to whoever asks for a name; I1 and I2 are those of the backend. */
import { assert } from '../../core/assert.ts'
import type { AcquireRequest, AcquireResult, Grant } from '../../core/backend.ts'
import type { Queue } from './queue.ts'
import type { Entry, Found, Records } from './records.ts'
import type { SqliteWakeUps } from './wake-ups.ts'

/** What there is once the tables are known to stand. */
export interface Opened {
  readonly source: string
  readonly records: Records
  readonly queue: Queue
  readonly wakeUps: SqliteWakeUps
}

const REFUSED: AcquireResult = { kind: 'held', retryAfterMs: null, holder: null }

/** I2. A refusal that needs no write; or what a write is likely to find. */
export function look(
  opened: Opened,
  request: AcquireRequest,
  { entry, isQueued }: Found = found(opened, request),
): AcquireResult | 'free' | 'taken' {
  const { records, queue } = opened
  const { lockName, owner, waits, waiter } = request
  if (entry?.owner === owner) return 'free'
  if (entry) return waits && !queue.isKept(lockName, waiter) ? 'taken' : refusalOf(records, entry)
  const first = isQueued ? queue.look(lockName) : null
  return first === null || first.waiter === waiter ? 'free' : 'taken'
}

/** Null: not without a write. */
export function refusalAtALook(opened: Opened, request: AcquireRequest): AcquireResult | null {
  const seen = look(opened, request)
  return typeof seen === 'string' ? null : seen
}

export function found({ records }: Opened, { lockName, owner }: AcquireRequest): Found {
  return records.find(lockName, owner)
}

/** Whoever waits gets a place in the queue, or keeps it. Null: the name may be granted, or was. */
export function refusal(
  opened: Opened,
  { lockName, owner, waits, waiter }: AcquireRequest,
  { entry, isCancelled, isQueued }: Found,
): AcquireResult | null {
  const { records, queue } = opened
  if (entry?.owner === owner) return null
  // Whoever cancelled this attempt does not listen any more: any answer but a grant will do.
  if (isCancelled) return REFUSED
  if (entry) {
    if (waits) queue.stand(lockName, waiter)
    return refusalOf(records, entry)
  }
  const first = isQueued ? queue.first(lockName) : null
  if (first === null || first.waiter === waiter) return null
  if (waits) queue.stand(lockName, waiter)
  return { kind: 'held', retryAfterMs: records.overInMs(first.endsAtMs), holder: null }
}

/** Grants what is free. `taken`: whoever asks is refused, and has a place in the queue to be written. */
export function acquireIfFree(
  opened: Opened,
  request: AcquireRequest,
  sentAtMs: number,
): AcquireResult | 'taken' {
  const seen = found(opened, request)
  const answer = look(opened, request, seen)
  return answer === 'free' ? acquire(opened, request, sentAtMs, seen) : answer
}

/** @param sentAtMs Before the request was made: its life counts from later. */
export function acquire(
  opened: Opened,
  request: AcquireRequest,
  sentAtMs: number,
  seen: Found = found(opened, request),
): AcquireResult {
  const refused = refusal(opened, request, seen)
  if (refused !== null) return refused
  if (seen.entry) return { kind: 'granted', grant: again(opened, seen.entry, sentAtMs) }
  if (seen.isQueued) opened.queue.leave(request.lockName, request.waiter)
  return { kind: 'granted', grant: fresh(opened, request, sentAtMs) }
}

function refusalOf(records: Records, entry: Entry): AcquireResult {
  const { holder, owner } = entry
  const fencingToken = owner === null ? null : entry.fencingToken
  return { kind: 'held', retryAfterMs: records.overInMs(entry.endsAtMs), holder, fencingToken }
}

export function fresh(
  { source, records }: Opened,
  request: AcquireRequest,
  sentAtMs: number,
): Grant {
  const { fencingToken } = records.grant(request)
  const { lockName, owner, ttlMs } = request
  return { lockName, owner, fencingToken, source, ttlMs, sentAtMs }
}

/** Of an entry that stands: what is left of its life. */
export function again({ source, records }: Opened, entry: Entry, sentAtMs: number): Grant {
  const { lockName, owner, fencingToken } = entry
  assert(owner !== null, 'I1: nobody is granted nothing')
  return { lockName, owner, fencingToken, source, ttlMs: records.leftMs(entry), sentAtMs }
}

/** Without the holder's lock delay: that part is for the name to rest, not for work. */
export function revokerGrant(opened: Opened, entry: Entry, sentAtMs: number): Grant {
  const grant = again(opened, entry, sentAtMs)
  return { ...grant, ttlMs: Math.max(0, grant.ttlMs - entry.lockDelayMs) }
}
