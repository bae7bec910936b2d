/** The scripts of an owner that has a name, or may have it: all compare the owner first. */
import type { ScriptModel } from './model.ts'
import {
  endOfMetadata,
  isOf,
  markOf,
  RESTING_OWNER,
  restingValue,
  revokedTokenIn,
} from './values.ts'

export const renew: ScriptModel = (run, [lock = ''], [mark = '', ttl = '', token = '']) => {
  const value = run.read(lock)
  if (isOf(mark, value)) {
    if (run.pttl(lock) < Number(ttl)) run.expire(lock, Number(ttl))
    return 'renewed'
  }
  if (value === null) return run.exists(lock) ? 'superseded' : 'expired'
  if (isOf(markOf(RESTING_OWNER), value)) return 'expired'
  return revokedTokenIn(value) === token ? 'revoked' : 'superseded'
}

export const release: ScriptModel = (run, [lock = '', want = ''], [mark = '']) => {
  if (!isOf(mark, run.read(lock))) return 0
  if (run.del(lock, want) === 2) run.publish(lock)
  return 1
}

export const rest: ScriptModel = (run, [lock = '', tombstone = ''], [mark = '', restMs = '']) => {
  run.del(tombstone)
  const value = run.read(lock)
  if (!isOf(mark, value)) return 0
  run.set(lock, restingValue(value), Number(restMs))
  return 1
}

export const cancel: ScriptModel = (run, keys, [mark = '', life = '']) => {
  const [lock = '', want = '', tombstone = ''] = keys
  const lifeMs = Math.max(run.pttl(tombstone), Number(life))
  run.del(tombstone)
  run.set(tombstone, '', lifeMs)
  if (!isOf(mark, run.read(lock))) return 0
  if (run.del(lock, want) === 2) run.publish(lock)
  return 1
}

export const proclaim: ScriptModel = (
  run,
  [lock = ''],
  [mark = '', member = '', bytesMax = ''],
) => {
  const value = run.read(lock)
  if (!isOf(mark, value)) return 'not-held'
  // The last member goes, whichever form it has, or else only the closing brace.
  const end = endOfMetadata(value, 'v', 'V')
  const proclaimed = `${value.slice(0, end)}${member}}`
  if (proclaimed.length > Number(bytesMax)) return 'too-long'
  run.set(lock, proclaimed, 'as it was')
  run.publish(lock)
  return 'proclaimed'
}

export const owns: ScriptModel = (run, [lock = ''], [mark = '']) =>
  isOf(mark, run.read(lock)) ? 1 : 0
