/** The scripts that look; one of them leaves a mark that somebody waits. */
import type { Bytes } from '../bytes.ts'
import type { ScriptRun } from '../script-run.ts'
import type { Part, Reply, ScriptModel } from './model.ts'
import { describe, seenIn } from './values.ts'

const WANT_MS = 2000
const POLICY = 'noeviction'

export const inspect: ScriptModel = (run, keys) => inspected(run, keys, false)
export const inspectWithOwner: ScriptModel = (run, keys) => inspected(run, keys, true)

function inspected(run: ScriptRun, [lock = '']: readonly Bytes[], showsOwner: boolean): Reply {
  const value = run.read(lock)
  if (value === null) {
    const type = run.typeOf(lock)
    return type === 'none' ? ['free'] : ['not-a-lock', lock, `it is a ${type}`]
  }
  const left = run.pttl(lock)
  if (left < 0) return ['not-a-lock', lock, 'it never expires']
  const [kind, first, second] = describe(value)
  return [kind, left, first, second, ...(showsOwner ? [ownerOf(kind, value)] : [])]
}

/** A secret, that must not be told to people. */
function ownerOf(kind: string, value: Bytes): Bytes {
  return kind === 'lock' ? (seenIn(value)?.owner ?? '') : ''
}

/** All on one page: SCAN promises no more than that what stands there all the time is found. */
export const list: ScriptModel = (run, keys, args) => listed(run, keys, args, false)
export const listWithOwners: ScriptModel = (run, keys, args) => listed(run, keys, args, true)

function listed(
  run: ScriptRun,
  [key]: readonly Bytes[],
  [, , bytes = '', ownStart = '']: readonly Bytes[],
  showsOwner: boolean,
): Reply {
  const start = key ?? ownStart
  const nameAt = start.length - Number(bytes)
  const reply: Part[] = ['0']
  for (const [found, { type, value }] of run.all()) {
    const name = found.slice(nameAt)
    const isLock = found.startsWith(start) && name !== '' && !name.includes('#hf:')
    if (!isLock || type !== 'string' || run.pttl(found) < 0) continue
    const [kind, first, second] = describe(value)
    if (kind === 'rest') continue
    reply.push(name, kind, run.pttl(found), first, second)
    if (showsOwner) reply.push(ownerOf(kind, value))
  }
  return reply
}

export const awaitName: ScriptModel = (run, [lock = '', want = ''], [waiter = '']) => {
  if (!run.exists(lock)) return 0
  run.trySet(want, waiter, WANT_MS)
  return 1
}

export const facts: ScriptModel = (_run, [lock = '']) => [lock, POLICY, '']

export const factsOfNode: ScriptModel = (run, [lock = '']) => {
  return [lock, POLICY, '', run.runId, run.role, String(run.replicaCount)]
}
