/** The scripts of an owner that has a name on other nodes too, or may have it. */
import type { ScriptModel } from '../model.ts'
import { isAtLeast, lift } from '../tokens.ts'
import {
  endOfMetadata,
  grantValue,
  isOf,
  markOf,
  RESTING_OWNER,
  revokedTokenIn,
} from '../values.ts'
import { refusal } from './gate.ts'
import { withoutZeros } from './granting.ts'

const OWNER_BYTES = 22
const VALUE_BYTES_MAX = 2048
/** Where the JSON of a value begins. */
const JSON_AT = 47

export const extend: ScriptModel = (run, [lock = '', markerKey = ''], args) => {
  const [mark = '', ttl = '', setId = '', runId = '', token = ''] = args
  const ttlMs = Number(ttl)
  const refused = refusal(run, { marker: run.read(markerKey), setId, runId, ttlMs })
  if (refused !== null) return refused
  const value = run.read(lock)
  if (isOf(mark, value)) {
    if (run.pttl(lock) < ttlMs) run.expire(lock, ttlMs)
    return ['ok']
  }
  if (value === null) return [run.exists(lock) ? 'held' : 'free']
  if (isOf(markOf(RESTING_OWNER), value)) return ['resting']
  return [revokedTokenIn(value) === token ? 'revoked' : 'held']
}

export const repair: ScriptModel = (run, keys, args) => {
  const [lock = '', tombstone = '', counterKey = '', markerKey = ''] = keys
  const [ttl = '', setId = '', runId = '', token = '', metadata = ''] = args
  const counter = run.read(counterKey)
  const marker = run.read(markerKey)
  const refused = refusal(run, { marker, setId, runId, counter, ttlMs: Number(ttl) })
  if (refused !== null) return refused
  if (run.read(tombstone) !== null) return ['cancelled']
  const owner = tombstone.slice(-OWNER_BYTES)
  const value = run.read(lock)
  if (value !== null) return [isOf(markOf(owner), value) ? 'again' : 'held']
  lift(run, counterKey, counter ?? '', withoutZeros(token))
  const repaired = grantValue(owner, token, String(run.nowUs), `,"f":1${metadata}`)
  return [run.setIfMissing(lock, repaired, Number(ttl)) ? 'ok' : 'held']
}

export const cancel: ScriptModel = (run, keys, [mark = '', life = '', seen = '']) => {
  const [lock = '', want = '', tombstone = '', counterKey = ''] = keys
  const lifeMs = Math.max(run.pttl(tombstone), Number(life))
  run.del(tombstone)
  run.set(tombstone, '', lifeMs)
  const counter = run.read(counterKey)
  if (counter !== null) lift(run, counterKey, counter, seen)
  if (!isOf(mark, run.read(lock))) return 0
  if (run.del(lock, want) === 2) run.publish(lock)
  return 1
}

export const proclaim: ScriptModel = (run, [lock = ''], [mark = '', p = '', member = '']) => {
  const value = run.read(lock)
  if (!isOf(mark, value)) return 'not-held'
  const [, last = ''] = /,"n":([0-9]+)/.exec(value.slice(JSON_AT)) ?? []
  if (last !== p && isAtLeast(last, p)) return 'older'
  const end = endOfMetadata(value, 'n', 'v', 'V')
  const proclaimed = `${value.slice(0, end)},"n":${p}${member}}`
  if (proclaimed.length > VALUE_BYTES_MAX) return 'too-long'
  run.set(lock, proclaimed, 'as it was')
  run.publish(lock)
  return 'proclaimed'
}
