/**
 * The requests that make a place in the queue of a name.
 *
 * Every one of them is made on the condition that its owner was not cancelled (`#hf:cancel/<owner>` is
 * absent). A cancel that only deletes does not undo an acquire: a member that was frozen passes the old
 * request on when it wakes up, and it is done then [seen, 4 of 4].
 */
import { isLeaseGone } from '../../clients/etcd/errors.ts'
import type { KeyValue, TxnResponse } from '../../clients/etcd/messages.ts'
import type { AcquireRequest, AcquireResult, Grant } from '../../core/backend.ts'
import { BackendUnavailableError, NotALockError, OutcomeUnknownError } from '../../core/errors.ts'
import { requestTimeoutMsMax } from '../../core/validity.ts'
import type { Context } from './context.ts'
import type { Entry } from './entries.ts'
import type { Session } from './sessions.ts'
import {
  foundBy,
  inOrder,
  isAbsent,
  isCreatedAt,
  isUnchanged,
  look,
  put,
  remove,
  revisionOf,
  transaction,
} from './transactions.ts'
import { foundAt, placeValueOf } from './value.ts'

type Held = Extract<AcquireResult, { kind: 'held' }>

/** A session that ended, or a base that was raised, costs one try each. */
const TRIES_MAX = 5
/** An election takes about a second. */
const LOOKS_MAX = 20
const LOOK_AGAIN_MS = 100

/** Takes the name if nobody has it and nobody waits for it; leaves nothing behind if not. */
export async function askOnce(context: Context, request: AcquireRequest): Promise<AcquireResult> {
  const { keys, entries, client, base, seams } = context
  const { lockName, owner, timeoutMs } = request
  const untilMs = seams().nowMs() + timeoutMs
  const again = await repeated(context, request)
  if (again) return { kind: 'granted', grant: again }
  for (let tries = 1; ; tries++) {
    const entry = await entryOf(context, request, untilMs - seams().nowMs())
    const baseValue = base.value
    const ask = transaction(
      [
        isAbsent(keys.rangeOf(lockName)),
        isAbsent({ key: keys.cancelKey(owner) }),
        base.isCurrent(),
      ],
      [put(entry.key, ownValue(context, request, baseValue), entry.session.id)],
      [look(inOrder(keys.rangeOf(lockName), 1)), look({ key: keys.base })],
    )
    let answer: TxnResponse
    try {
      answer = await client.write('Txn', ask, untilMs - seams().nowMs(), 'an acquire')
    } catch (error) {
      await notAsked(context, entry, error, tries)
      continue
    }
    if (answer.succeeded) {
      placed(context, entry, revisionOf(answer), baseValue)
      return { kind: 'granted', grant: entries.granted(entry) }
    }
    const { kvs, count } = foundBy(answer, 0)
    const isRaised = base.note(foundBy(answer, 1).kvs[0])
    const [first] = kvs
    if (!first && isRaised && tries < TRIES_MAX && !entry.isCancelled) continue
    const grant = first && (await repeatedAt(context, request, first))
    if (grant) return { kind: 'granted', grant }
    forget(context, entry)
    return refusal(context, lockName, first, count)
  }
}

/**
 * Makes a place at the end of the queue. `older`: who holds the name; undefined: nobody stands before it.
 *
 * The oldest place is read before the own one is put, in the same transaction: a free name has none then,
 * and reading back what the transaction itself has put takes etcd up to a fifth of its rate.
 */
export async function stand(
  context: Context,
  request: AcquireRequest,
): Promise<Readonly<{ entry: Entry; older: KeyValue | undefined }>> {
  const { keys, client, base, seams } = context
  const { lockName, owner, timeoutMs } = request
  const untilMs = seams().nowMs() + timeoutMs
  for (let tries = 1; ; tries++) {
    const entry = await entryOf(context, request, untilMs - seams().nowMs())
    const { key, session } = entry
    const baseValue = base.value
    const oldest = look(inOrder(keys.rangeOf(lockName), 1))
    const ask = transaction(
      [isAbsent({ key }), isAbsent({ key: keys.cancelKey(owner) }), base.isCurrent()],
      [oldest, put(key, ownValue(context, request, baseValue), session.id)],
      [oldest, look({ key }), look({ key: keys.base })],
    )
    let answer: TxnResponse
    try {
      answer = await client.write('Txn', ask, untilMs - seams().nowMs(), 'an acquire')
    } catch (error) {
      await notAsked(context, entry, error, tries)
      continue
    }
    if (answer.succeeded) {
      placed(context, entry, revisionOf(answer), baseValue)
      return { entry, older: foundBy(answer, 0).kvs[0] }
    }
    const [own] = foundBy(answer, 1).kvs
    if (own) {
      // A request of ours whose answer was lost has been done.
      placed(context, entry, BigInt(own.create_revision), foundAt(own).base)
      const [first] = foundBy(answer, 0).kvs
      return { entry, older: first?.key.equals(key) === true ? undefined : first }
    }
    const isRaised = base.note(foundBy(answer, 2).kvs[0])
    if (isRaised && tries < TRIES_MAX && !entry.isCancelled) continue
    forget(context, entry)
    throw new OutcomeUnknownError('the attempt was cancelled before it was made')
  }
}

/** What stands in the way of whoever asks. */
export function refusal(
  context: Context,
  lockName: string,
  first: KeyValue | undefined,
  count = 1,
): Held {
  if (!first) return { kind: 'held', retryAfterMs: null, holder: null }
  if (!first.lease || first.lease === '0') {
    throw new NotALockError(first.key.toString(), 'it is bound to no lease, so it never ends')
  }
  const place = context.keys.placeOf(lockName, first.key)
  if (place.kind === 'foreign') {
    return { kind: 'held', retryAfterMs: null, holder: null, fencingToken: null }
  }
  const found = foundAt(first)
  if (!found.isRest && count > 0) removeStray(context, lockName, place.owner, first)
  const { holder, token } = found
  return { kind: 'held', retryAfterMs: null, holder, fencingToken: found.isRest ? null : token }
}

/** A place on a session of ours whose owner nobody knows here: nobody would ever release it. */
function removeStray(
  { sessions, entries, client, background }: Context,
  lockName: string,
  owner: string,
  { key, lease, create_revision, mod_revision }: KeyValue,
): void {
  if (!sessions.isShared(lease) || entries.get(owner, lockName)) return
  const isStill = [isCreatedAt(key, BigInt(create_revision)), isUnchanged(key, mod_revision)]
  const end = transaction(isStill, [remove(key)])
  background(() => client.write('Txn', end, requestTimeoutMsMax, 'the end of a stray lock'))
}

/** The life that is left of a grant that is asked for again: nothing is lengthened. */
async function repeated(
  context: Context,
  { owner, lockName }: AcquireRequest,
): Promise<Grant | null> {
  const { entries, client, seams } = context
  const entry = entries.get(owner, lockName)
  if (entry?.state !== 'held') return null
  const { key } = entry
  const answer = await client.read('Range', { key, keys_only: true }, requestTimeoutMsMax, 'a look')
  const [found] = answer.kvs ?? []
  if (found && BigInt(found.create_revision) === entry.createRevision) {
    const sentAtMs = seams().nowMs()
    const ttlMs = Math.max(0, Math.floor(entry.endsAtMs - sentAtMs))
    return grantOf(context, { owner, lockName }, entry.token, { sentAtMs, ttlMs })
  }
  entries.drop(entry)
  return null
}

/** The same, of an owner that another process, or a backend before this one, asked for. */
export async function repeatedAt(
  context: Context,
  { owner, lockName }: Pick<AcquireRequest, 'owner' | 'lockName'>,
  first: KeyValue,
): Promise<Grant | null> {
  const place = context.keys.placeOf(lockName, first.key)
  const found = foundAt(first)
  if (place.kind !== 'ours' || place.owner !== owner || found.isRest) return null
  const sentAtMs = context.seams().nowMs()
  const ttlMs = await remainingMs(context, first.lease)
  return grantOf(context, { owner, lockName }, found.token, { sentAtMs, ttlMs })
}

/**
 * What etcd says is left of a lease, in whole seconds rounded down; 0: it has ended. A leader that has just
 * been elected answers centuries (B073): more than was granted is not believed.
 *
 * @throws BackendUnavailableError when etcd told nothing that can be true.
 */
export async function remainingMs(
  { client, seams }: Context,
  lease: string | undefined,
): Promise<number> {
  if (lease === undefined) return 0
  const what = 'a look at a lease'
  for (let tries = 1; tries <= LOOKS_MAX; tries++) {
    const answer = await client.read('LeaseTimeToLive', { ID: lease }, requestTimeoutMsMax, what)
    const seconds = Math.max(0, Number(answer.TTL ?? 0))
    if (seconds <= Number(answer.grantedTTL ?? 0)) return seconds * 1000
    await new Promise<void>((resolve) => {
      seams().after(LOOK_AGAIN_MS, resolve, true)
    })
  }
  throw new BackendUnavailableError('no-quorum', 'etcd does not tell how long a lease lives')
}

export function grantOf(
  { source }: Context,
  { owner, lockName }: Pick<AcquireRequest, 'owner' | 'lockName'>,
  fencingToken: bigint,
  { sentAtMs, ttlMs }: Pick<Grant, 'sentAtMs' | 'ttlMs'>,
): Grant {
  return { lockName, owner, fencingToken, source: source(), ttlMs, sentAtMs }
}

/** Before anything is asked: the session, and the entry by which a cancel finds the key. */
async function entryOf(
  { entries, sessions }: Context,
  request: AcquireRequest,
  timeoutMs: number,
): Promise<Entry> {
  const { owner, lockName, ttlMs, ownLife } = request
  const known = entries.get(owner, lockName)
  if (known && !known.session.isOver) return known
  const session: Session = await (ownLife === true
    ? sessions.own(ttlMs, timeoutMs)
    : sessions.shared(ttlMs, timeoutMs))
  return entries.get(owner, lockName) ?? entries.add(request, session)
}

/** Rethrows, unless the session has ended: then nothing was applied, and another one may do. */
async function notAsked(
  context: Context,
  entry: Entry,
  error: unknown,
  tries: number,
): Promise<void> {
  const { sessions, entries } = context
  if (isLeaseGone(error) && tries < TRIES_MAX && !entry.isCancelled) {
    entries.drop(entry)
    sessions.end(entry.session)
    return
  }
  if (error instanceof BackendUnavailableError) forget(context, entry)
  throw error
}

/** @throws BackendUnavailableError when there is no token for the place: it is given up. */
function placed(context: Context, entry: Entry, revision: bigint, base: bigint): void {
  try {
    context.entries.placed(entry, revision, base)
  } catch (error) {
    const { client, background } = context
    const end = transaction([isCreatedAt(entry.key, revision)], [remove(entry.key)])
    background(() => client.write('Txn', end, requestTimeoutMsMax, 'the end of a place'))
    forget(context, entry)
    throw error
  }
}

/** An attempt that made no place. */
export function forget({ entries, sessions, background }: Context, entry: Entry): void {
  if (entry.state === 'held') return
  entries.drop(entry)
  if (entry.session.isOwn) background(() => sessions.revoke(entry.session))
}

function ownValue({ seams }: Context, request: AcquireRequest, base: bigint): Buffer {
  const { holder, lockDelayMs } = request
  return placeValueOf({ sinceMs: seams().wallMs(), base, revoked: null, lockDelayMs, holder })
}
