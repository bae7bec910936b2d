/**
 * What operators do: take a lock from its holder, and raise tokens.
 *
 * A revoke makes the operator's place, whose token is larger than all before, and so behind everybody
 * who waits. So the places of those who wait are deleted in the same transaction; ours are taken again,
 * at the end. A Go program that waits would not take its place again: etcdctl 3.4 claims the lock when
 * its own key was deleted [seen]. While one waits, a revoke is refused.
 */
import type { KeyValue } from '../../clients/etcd/messages.ts'
import type { AcquireRequest, Grant, RevokeOptions } from '../../core/backend.ts'
import { InvalidArgumentError, LockHeldError } from '../../core/errors.ts'
import { checkToken, TOKEN_MAX } from '../../core/token.ts'
import { requestTimeoutMsMax } from '../../core/validity.ts'
import { grantOf, remainingMs, repeatedAt } from './asking.ts'
import type { Context } from './context.ts'
import type { Entry } from './entries.ts'
import {
  foundBy,
  inOrder,
  isAbsent,
  isCreatedAt,
  isNotYounger,
  look,
  put,
  removeRange,
  revisionOf,
  transaction,
} from './transactions.ts'
import { type Found, foundAt, placeValueOf } from './value.ts'

/** Those who come to wait in between make it fail; this often it is tried again. */
const TRIES_MAX = 20
const FOREVER = '0'

export async function revoke(
  context: Context,
  request: AcquireRequest,
  seen: RevokeOptions,
): Promise<Grant | null> {
  for (let tries = 1; ; tries++) {
    const places = await placesOf(context, request.lockName)
    const [first] = places
    if (!first) return null
    const again = await repeatedAt(context, request, first)
    if (again) return withoutDelay(again, foundAt(first).lockDelayMs)
    if (!isSeen(context, request.lockName, first, seen)) return null
    refuseIfForeignWaits(context, request.lockName, places)
    const sentAtMs = context.seams().nowMs()
    const leftMs = await remainingMs(context, first.lease)
    if (leftMs === 0) return null
    const grant = await take(context, request, places, { sentAtMs, leftMs })
    if (grant) return grant
    if (tries === TRIES_MAX) {
      const { lockName } = request
      throw new LockHeldError(lockName, 0, foundAt(first).holder)
    }
  }
}

async function placesOf({ client, keys }: Context, lockName: string): Promise<readonly KeyValue[]> {
  const range = inOrder(keys.rangeOf(lockName))
  const answer = await client.read('Range', range, requestTimeoutMsMax, 'a look at places')
  return answer.kvs ?? []
}

function isSeen(
  { keys }: Context,
  lockName: string,
  first: KeyValue,
  seen: RevokeOptions,
): boolean {
  const place = keys.placeOf(lockName, first.key)
  if ('foreignOwner' in seen) return place.kind === 'foreign' && place.shown === seen.foreignOwner
  const found = foundAt(first)
  return place.kind === 'ours' && !found.isRest && found.token === seen.fencingToken
}

function refuseIfForeignWaits(
  { keys }: Context,
  lockName: string,
  places: readonly KeyValue[],
): void {
  const waiting = places.slice(1)
  if (waiting.every(({ key }) => keys.placeOf(lockName, key).kind === 'ours')) return
  throw new LockHeldError(lockName, 0, null, {
    cause: new Error('a program that is not of Holdfast waits for it, and cannot be passed'),
  })
}

/** Null: somebody came to wait in between, or it is somebody else's now. */
async function take(
  context: Context,
  request: AcquireRequest,
  places: readonly KeyValue[],
  life: Readonly<{ sentAtMs: number; leftMs: number }>,
): Promise<Grant | null> {
  const { sessions, entries, client, keys, base, seams, background } = context
  const { lockName, owner, holder, timeoutMs } = request
  const [first] = places as [KeyValue]
  const newest = places.reduce((max, one) => larger(max, BigInt(one.create_revision)), 0n)
  const old: Found = foundAt(first)
  const place = keys.placeOf(lockName, first.key)
  const revoked = place.kind === 'ours' ? old.token : null
  const session = await sessions.own(life.leftMs, timeoutMs)
  const entry: Entry = entries.add({ ...request, ownLife: true }, session)
  const { key } = entry
  const range = keys.rangeOf(lockName)
  const baseValue = base.value
  const { lockDelayMs } = old
  const stated = { sinceMs: seams().wallMs(), base: baseValue, revoked, lockDelayMs, holder }
  const steps = [
    // A range and a put of a key in it are refused by etcd: all before our key, and all behind it.
    removeRange(range.key, key),
    removeRange(Buffer.concat([key, Buffer.from([0])]), range.range_end),
    put(key, placeValueOf(stated), session.id),
  ]
  if (place.kind === 'ours') {
    steps.push(put(keys.cancelKey(place.owner), Buffer.alloc(0), first.lease ?? FOREVER))
  }
  const answer = await client.write(
    'Txn',
    transaction(
      [
        isCreatedAt(first.key, BigInt(first.create_revision)),
        isNotYounger(range, newest),
        isAbsent({ key: keys.cancelKey(owner) }),
        base.isCurrent(),
      ],
      steps,
      [look({ key: keys.base }), look({ key: keys.cancelKey(owner), keys_only: true })],
    ),
    timeoutMs,
    'a revoke',
  )
  if (!answer.succeeded) {
    entries.drop(entry)
    background(() => sessions.revoke(session))
    base.note(foundBy(answer, 0).kvs[0])
    const isCancelled = foundBy(answer, 1).kvs.length > 0
    if (isCancelled) throw new LockHeldError(lockName, 0, old.holder)
    return null
  }
  entries.placed(entry, revisionOf(answer), baseValue)
  entries.granted(entry)
  const { sentAtMs, leftMs } = life
  const grant = grantOf(context, request, entry.token, { sentAtMs, ttlMs: leftMs })
  return withoutDelay(grant, lockDelayMs)
}

/** Nobody may work in the time that only keeps the name taken. */
function withoutDelay(grant: Grant, lockDelayMs: number): Grant {
  return { ...grant, ttlMs: Math.max(0, grant.ttlMs - lockDelayMs) }
}

function larger(a: bigint, b: bigint): bigint {
  return a > b ? a : b
}

/**
 * Later tokens of the name are larger than `fencingTokenMin`: the base of the key prefix is raised. It
 * demands that nobody waits for the name, because a place that is there has its token already. Its
 * holder, if there is one, keeps its own.
 */
export async function raise(
  context: Context,
  lockName: string,
  fencingTokenMin: bigint,
): Promise<void> {
  checkToken(fencingTokenMin, 'fencingTokenMin')
  if (fencingTokenMin === TOKEN_MAX) {
    throw new InvalidArgumentError('fencingTokenMin', fencingTokenMin, 'a token below 2^63 - 1')
  }
  const { client, keys, base } = context
  const range = keys.rangeOf(lockName)
  for (let tries = 1; ; tries++) {
    const answer = await client.read(
      'Txn',
      transaction([], [look(inOrder(range, 2)), look({ key: keys.base })]),
      requestTimeoutMsMax,
      'a look at the base',
    )
    const { kvs } = foundBy(answer, 0)
    base.note(foundBy(answer, 1).kvs[0])
    if (kvs.length > 1) throw new LockHeldError(lockName, 0, foundAt(kvs[0] as KeyValue).holder)
    const newest = BigInt(kvs[0]?.create_revision ?? 0)
    const wanted = fencingTokenMin - revisionOf(answer)
    if (wanted <= base.value) return
    const raised = await client.write(
      'Txn',
      transaction(
        [base.isCurrent(), isNotYounger(range, newest)],
        [{ request_put: { key: keys.base, value: Buffer.from(wanted.toString()) } }],
      ),
      requestTimeoutMsMax,
      'a raise',
    )
    if (raised.succeeded) return
    if (tries === TRIES_MAX) throw new LockHeldError(lockName, 0, null)
  }
}
