/** The scripts by which a node of a Redlock votes for an attempt, or for an operator. */
import { type Bytes, sha1 } from '../../bytes.ts'
import type { ScriptRun } from '../../script-run.ts'
import type { Part, Reply, ScriptModel } from '../model.ts'
import { drawProposed, lift } from '../tokens.ts'
import {
  grantValue,
  isOf,
  isOurs,
  isRepaired,
  markOf,
  metadataIn,
  RESTING_OWNER,
  seenIn,
  tokenIn,
} from '../values.ts'
import { refusal } from './gate.ts'

const OWNER_BYTES = 22
/** Where the token of a value ends. */
const TOKEN_END = 46
const WANT_MS = 2000
/** Below it a token is answered as an integer, which clients read exactly. */
const TEXT_FROM = 9_007_199_254_740_000n
/** Of a foreign value the SHA-1 is named instead of an owner. */
const DIGEST_DIGITS = 40

export const acquire: ScriptModel = (run, keys, args) => {
  const [lock = '', tombstone = '', counterKey = '', markerKey = '', want] = keys
  const [ttl = '', setId = '', runId = '', proposed = '', metadata = '', waiter = ''] = args
  const counter = run.read(counterKey)
  const marker = run.read(markerKey)
  const refused = refusal(run, { marker, setId, runId, counter, ttlMs: Number(ttl) })
  if (refused !== null) return refused
  if (run.read(tombstone) !== null) return ['cancelled']
  const owner = tombstone.slice(-OWNER_BYTES)
  const value = run.read(lock)
  if (value !== null) {
    const left = run.pttl(lock)
    if (isOf(markOf(owner), value)) return repeat(run, lock, value, left, Number(ttl))
    if (left < 0) return ['not-a-lock', lock, 'it never expires']
    if (want !== undefined) run.trySet(want, waiter, WANT_MS)
    const told = isOurs(value) ? [metadataIn(value), lock, tokenIn(value)] : ['', lock, '']
    return ['held', left, ...told]
  }
  const drawn = drawProposed(run, counterKey, counter ?? '', proposed)
  if (drawn === null) return ['no-token']
  const granted = grantValue(owner, drawn.token, drawn.nowUs, metadata)
  if (!run.setIfMissing(lock, granted, Number(ttl))) {
    return ['not-a-lock', lock, `it is a ${run.typeOf(lock)}`]
  }
  return BigInt(drawn.token) < TEXT_FROM ? Number(drawn.token) : drawn.token
}

function repeat(run: ScriptRun, lock: Bytes, value: Bytes, left: number, ttlMs: number): Reply {
  if (isRepaired(value)) return ['repaired']
  if (left < 0) run.expire(lock, ttlMs)
  return ['again', tokenIn(value), left < 0 ? ttlMs : left]
}

export const raiseRecorded: ScriptModel = (run, keys, args) => {
  const [lock = '', counterKey = '', markerKey = ''] = keys
  const [mark = '', wanted = '', setId = '', runId = ''] = args
  const counter = run.read(counterKey)
  const refused = refusal(run, { marker: run.read(markerKey), setId, runId, counter })
  if (refused !== null) return refused
  const value = run.read(lock)
  if (!isOf(mark, value)) return ['not-owner']
  const recorded = tokenIn(value)
  const raised = [recorded, wanted].sort().at(-1) ?? recorded
  lift(run, counterKey, counter ?? '', withoutZeros(raised))
  if (raised !== recorded) {
    run.set(lock, mark + raised + value.slice(TOKEN_END), 'as it was')
  }
  return ['ok', raised]
}

/** What is no number counts as none. */
export function withoutZeros(token: Bytes): Bytes {
  return /^0*([0-9]+)$/.exec(token)?.[1] ?? '0'
}

export const raise: ScriptModel = (run, keys, [token = '', setId = '', runId = '']) => {
  const [counterKey = '', markerKey = ''] = keys
  const counter = run.read(counterKey)
  const refused = refusal(run, { marker: run.read(markerKey), setId, runId, counter })
  if (refused !== null) return refused
  return lift(run, counterKey, counter ?? '', token) ? 1 : 0
}

export const revoke: ScriptModel = (run, keys, args) => {
  const [lock = '', ownTombstone = '', counterKey = '', markerKey = '', tombstones = ''] = keys
  const [owner = '', wanted = '', wantedToken = '', ttl = '', setId = '', runId = ''] = args
  const [proposed = '', metadata = '', life = ''] = args.slice(6)
  const counter = run.read(counterKey)
  const marker = run.read(markerKey)
  const refused = refusal(run, { marker, setId, runId, counter, ttlMs: Number(ttl) })
  if (refused !== null) return refused
  if (run.read(ownTombstone) !== null) return ['cancelled']
  const value = run.read(lock)
  if (value === null) return ['gone']
  const left = run.pttl(lock)
  const seen = seenIn(value)
  const delay = seen?.lockDelayMs ?? '0'
  if (isOf(markOf(owner), value)) return repeatedRevoke(value, left, delay)
  const isForeign = wanted.length === DIGEST_DIGITS
  const isTheOne = isForeign ? sha1(value) === wanted && left >= 0 : seen?.owner === wanted
  if (!isTheOne || seen?.owner === RESTING_OWNER) return ['gone']

  const keptDelay = isForeign ? '0' : delay
  let told = ''
  if (!isForeign) {
    const tombstone = tombstones + seen?.owner
    run.del(tombstone)
    run.set(tombstone, '', Math.max(2 * left, Number(life)))
    told = `,"r":"${wantedToken}"${keptDelay === '0' ? '' : `,"d":${keptDelay}`}`
  }
  const drawn = drawProposed(run, counterKey, counter ?? '', proposed)
  if (drawn === null) return ['no-token']
  const granted = grantValue(owner, drawn.token, drawn.nowUs, told + metadata)
  const leftMs = left < 0 ? Number(ttl) : left
  run.set(lock, granted, left < 0 ? leftMs : 'as it was')
  return ['revoked', drawn.token, leftMs, keptDelay]
}

function repeatedRevoke(value: Bytes, left: number, delay: Bytes): readonly Part[] {
  return isRepaired(value) ? ['repaired'] : ['again', tokenIn(value), left, delay]
}
