/** The scripts by which an owner gets a name: by itself, from the one before, or by an operator. */
import { type Bytes, sha1 } from '../bytes.ts'
import type { ScriptRun } from '../script-run.ts'
import type { Reply, ScriptModel } from './model.ts'
import { draw } from './tokens.ts'
import {
  grantValue,
  isOf,
  isOurs,
  markOf,
  metadataIn,
  RESTING_OWNER,
  seenIn,
  tokenIn,
} from './values.ts'

const OWNER_BYTES = 22
const WANT_MS = 2000
/** Below it a token is answered as an integer, which clients read exactly. */
const TEXT_FROM = 9_007_199_254_740_000n

export const acquire: ScriptModel = (run, keys, args) => {
  const [lock = '', tombstone = '', counter = '', want] = keys
  const [ttl = '', metadata = '', waiter = ''] = args
  const owner = tombstone.slice(-OWNER_BYTES)
  if (run.read(tombstone) !== null) return ['cancelled']
  // A tombstone of another type stands for nothing, but the name is not granted beside it.
  if (run.exists(lock) || run.exists(tombstone)) {
    return refuse(run, lock, markOf(owner), Number(ttl), want === undefined ? null : [want, waiter])
  }
  const drawn = draw(run, counter)
  if (drawn === null) return ['no-token']
  run.set(lock, grantValue(owner, drawn.token, drawn.nowUs, metadata), Number(ttl))
  return BigInt(drawn.token) < TEXT_FROM ? Number(drawn.token) : drawn.token
}

type Want = readonly [key: Bytes, waiter: Bytes]

function refuse(run: ScriptRun, lock: Bytes, own: Bytes, ttlMs: number, want: Want | null): Reply {
  const value = run.read(lock)
  if (value === null) return ['not-a-lock', lock, `it is a ${run.typeOf(lock)}`]
  const left = run.pttl(lock)
  if (isOf(own, value)) {
    if (left < 0) run.expire(lock, ttlMs)
    return ['again', tokenIn(value), left < 0 ? ttlMs : left]
  }
  if (left < 0) return ['not-a-lock', lock, 'it never expires']
  if (want !== null) run.trySet(...want, WANT_MS)
  const told = isOurs(value) ? [metadataIn(value), lock, tokenIn(value)] : ['', lock, '']
  return ['held', left, ...told]
}

export const handOver: ScriptModel = (run, keys, args) => {
  const [lock = '', want = '', counter = '', tombstone = '', ownTombstone = ''] = keys
  const [mark = '', nextOwner = '', ttl = '', metadata = '', waiter = '', even = ''] = args
  run.del(ownTombstone)
  const value = run.read(lock)
  const waiting = run.read(want)
  const isForeign = waiting !== null && waiting !== waiter
  const wanted = isForeign ? 1 : 0
  if (isOf(markOf(nextOwner), value)) return ['again', tokenIn(value), wanted, run.pttl(lock)]
  if (!isOf(mark, value)) return ['not-held']
  if (run.read(tombstone) !== null || (isForeign && even !== '1')) {
    run.del(lock, want)
    if (waiting !== null) run.publish(lock)
    return ['freed']
  }
  const drawn = draw(run, counter)
  if (drawn === null) return ['no-token']
  run.set(lock, grantValue(nextOwner, drawn.token, drawn.nowUs, metadata), Number(ttl))
  return ['handed-over', drawn.token, wanted]
}

/** Of a foreign value the SHA-1 is named instead of a token. */
const DIGEST_DIGITS = 40

export const revoke: ScriptModel = (run, keys, args) => {
  const [lock = '', ownTombstone = '', counter = '', tombstones = ''] = keys
  const [owner = '', wanted = '', ttl = '', metadata = '', life = ''] = args
  const value = run.read(lock)
  if (run.read(ownTombstone) !== null) return ['cancelled']
  if (value === null) return ['gone']
  const left = run.pttl(lock)
  const seen = seenIn(value)
  const delay = seen?.lockDelayMs ?? '0'
  if (isOf(markOf(owner), value)) return ['revoked', seen?.token ?? null, left, delay]
  if (seen?.owner === RESTING_OWNER) return ['gone']
  const isForeign = wanted.length === DIGEST_DIGITS
  if (isForeign && (sha1(value) !== wanted || left < 0)) return ['gone']
  if (!isForeign && seen?.token !== wanted) return ['gone']

  const keptDelay = isForeign ? '0' : delay
  let told = ''
  if (!isForeign) {
    const tombstone = tombstones + seen?.owner
    run.del(tombstone)
    run.set(tombstone, '', Math.max(2 * left, Number(life)))
    told = `,"r":"${wanted}"${keptDelay === '0' ? '' : `,"d":${keptDelay}`}`
  }
  const drawn = draw(run, counter)
  if (drawn === null) return ['no-token']
  const granted = grantValue(owner, drawn.token, drawn.nowUs, told + metadata)
  const leftMs = left < 0 ? Number(ttl) : left
  run.set(lock, granted, left < 0 ? leftMs : 'as it was')
  return ['revoked', drawn.token, leftMs, keptDelay]
}
