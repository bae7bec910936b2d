/** What the holder of a name does with its place: ends it, undoes it, writes to it. */
import { isLeaseGone } from '../../clients/etcd/errors.ts'
import type { KeyValue } from '../../clients/etcd/messages.ts'
import type { Fenced, Grant } from '../../core/backend.ts'
import { requestTimeoutMsMax } from '../../core/validity.ts'
import { proclaimed } from '../../wire/value.ts'
import type { Context } from './context.ts'
import {
  foundBy,
  inOrder,
  isCreatedAt,
  isUnchanged,
  look,
  put,
  remove,
  rewrite,
  transaction,
} from './transactions.ts'
import { foundAt, placeValueOf, REST } from './value.ts'

/** An attempt whose session is not known here: longer than anything of it can be under way. */
const UNKNOWN_CANCEL_MS = 120_000

/** The place of an owner, wherever in the queue; null: it has none, or it only rests. */
export async function holdersKey(
  { client, keys }: Context,
  lockName: string,
  owner: string,
): Promise<KeyValue | null> {
  const range = inOrder(keys.rangeOf(lockName))
  const answer = await client.read('Range', range, requestTimeoutMsMax, 'a look at places')
  return (
    (answer.kvs ?? []).find((one) => isPlaceOf(keys.placeOf(lockName, one.key), owner, one)) ?? null
  )
}

function isPlaceOf(
  place: ReturnType<Context['keys']['placeOf']>,
  owner: string,
  found: KeyValue,
): boolean {
  return place.kind === 'ours' && place.owner === owner && !foundAt(found).isRest
}

export async function release(
  context: Context,
  { lockName, owner, fencingToken }: Grant,
  keepForMs: number,
): Promise<'released' | 'not-held'> {
  const { entries, client, sessions, background } = context
  const entry = entries.get(owner, lockName)
  if (entry && entry.token !== fencingToken) return 'not-held'
  const found = entry ?? (await holdersKey(context, lockName, owner))
  if (!found) return 'not-held'
  const { key } = found
  const revision = 'createRevision' in found ? found.createRevision : BigInt(found.create_revision)
  // The key stays where it is: behind it others wait, who must not be let in.
  const rest = keepForMs > 0 ? await sessions.brief(keepForMs) : null
  const end = rest === null ? remove(key) : put(key, REST, rest)
  const answer = await client.write(
    'Txn',
    transaction([isCreatedAt(key, revision)], [end]),
    requestTimeoutMsMax,
    'a release',
  )
  if (entry) {
    entries.drop(entry)
    if (entry.session.isOwn) background(() => sessions.revoke(entry.session))
  }
  return answer.succeeded ? 'released' : 'not-held'
}

/**
 * Final: the place is deleted, and the request that would make it, however late it comes, finds the key
 * of a cancelled owner. That key lies on the session of the attempt, without which its place cannot be
 * made either.
 */
export async function cancel(context: Context, lockName: string, owner: string): Promise<void> {
  const { entries, client, keys, sessions } = context
  const tombstone = keys.cancelKey(owner)
  const entry = entries.get(owner, lockName)
  if (!entry || entry.session.isOver) return cancelUnknown(context, lockName, owner)
  entry.isCancelled = true
  const { session, key } = entry
  const lease = session.isOwn ? await sessions.brief(UNKNOWN_CANCEL_MS) : session.id
  const undo = transaction([], [remove(key), put(tombstone, Buffer.alloc(0), lease)])
  try {
    await client.write('Txn', undo, requestTimeoutMsMax, 'a cancel')
  } catch (error) {
    if (!isLeaseGone(error)) throw error
    // Its place went with it, but the attempt may be about to take another session.
    sessions.end(session)
    return cancelUnknown(context, lockName, owner)
  }
  session.cancelCount += 1
  entries.drop(entry)
  if (session.isOwn) await sessions.revoke(session)
}

/** First the key of the cancelled owner, then the look: what comes in between finds it. */
async function cancelUnknown(context: Context, lockName: string, owner: string): Promise<void> {
  const { client, keys, sessions, entries } = context
  const lease = await sessions.brief(UNKNOWN_CANCEL_MS)
  const answer = await client.write(
    'Txn',
    transaction(
      [],
      [put(keys.cancelKey(owner), Buffer.alloc(0), lease), look(inOrder(keys.rangeOf(lockName)))],
    ),
    requestTimeoutMsMax,
    'a cancel',
  )
  for (const found of foundBy(answer, 1).kvs) {
    if (!isPlaceOf(keys.placeOf(lockName, found.key), owner, found)) continue
    const { key, create_revision, mod_revision } = found
    const isStill = [isCreatedAt(key, BigInt(create_revision)), isUnchanged(key, mod_revision)]
    await client.write('Txn', transaction(isStill, [remove(key)]), requestTimeoutMsMax, 'a cancel')
  }
  const entry = entries.get(owner, lockName)
  if (entry) entries.drop(entry)
}

export async function proclaim(
  context: Context,
  { lockName, owner }: Fenced,
  value: string,
): Promise<'proclaimed' | 'not-held'> {
  const { client } = context
  // Checks the length; the text itself is made of the whole holder.
  proclaimed(value)
  const found = await holdersKey(context, lockName, owner)
  if (!found) return 'not-held'
  const { holder, sinceAtMs, base, revoked, lockDelayMs } = foundAt(found)
  if (!holder) return 'not-held'
  const stated = {
    sinceMs: sinceAtMs ?? 0,
    base,
    revoked,
    lockDelayMs,
    holder: { ...holder, value },
  }
  const { key, create_revision, mod_revision } = found
  const answer = await client.write(
    'Txn',
    transaction(
      [isCreatedAt(key, BigInt(create_revision)), isUnchanged(key, mod_revision)],
      [rewrite(key, placeValueOf(stated))],
    ),
    requestTimeoutMsMax,
    'a proclamation',
  )
  if (answer.succeeded) return 'proclaimed'
  // Written to in between, by a move to another session for example.
  return proclaim(context, { lockName, owner, fencingToken: 0n, source: '' }, value)
}
