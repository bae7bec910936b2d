/** The marker that says whether this server may grant: `<state>:<inc>:<longest TTL>:<run_id>`. */
import type { Bytes } from '../bytes.ts'
import type { ScriptRun } from '../script-run.ts'
import { acquire } from './granting.ts'
import type { ScriptModel } from './model.ts'

interface Marker {
  /** Null: written under another server, or under none. */
  readonly state: Bytes | null
  readonly inc: Bytes
  /** Also of another server's: it may still be waited for. */
  readonly longestMs: Bytes | null
}

function markerAt(run: ScriptRun, key: Bytes): Marker {
  const pattern = /^([A-Za-z]+):([A-Za-z0-9_-]+):([0-9]+):([0-9A-Fa-f]+)$/
  const [, state, inc = '', longestMs, runId] = pattern.exec(run.get(key) ?? '') ?? []
  const isOfThisServer = runId === run.runId && state !== undefined
  return { state: isOfThisServer ? state : null, inc, longestMs: longestMs ?? null }
}

function write(run: ScriptRun, key: Bytes, parts: readonly Bytes[]): void {
  run.set(key, [...parts, run.runId].join(':'), 'for ever')
}

/** Keys: those of acquire, then the marker. Arguments: those of acquire, a fresh inc, the longest TTL. */
export const gatedAcquire: ScriptModel = (run, keys, args) => {
  const marker = keys.at(-1) ?? ''
  const [fresh = '', ownLongestMs = ''] = args.slice(-2)
  const found = markerAt(run, marker)
  const isLonger = Number(found.longestMs ?? 0) < Number(ownLongestMs)
  const longestMs = isLonger || found.longestMs === null ? ownLongestMs : found.longestMs
  const [state, inc] = found.state === null ? ['waiting', fresh] : [found.state, found.inc]
  if (found.state === null || isLonger) write(run, marker, [state, inc, longestMs])
  if (state !== 'voting' && !run.exists(keys[0] ?? '')) return ['waiting', inc, longestMs]
  return acquire(run, keys.slice(0, -1), args.slice(0, -2))
}

export const admit: ScriptModel = (run, [marker = ''], [inc = '', longestMs = '']) => {
  const found = markerAt(run, marker)
  if (found.state === 'voting') return 1
  const isTheOneWaitedFor = found.inc === inc && found.longestMs === longestMs
  if (found.state !== 'waiting' || !isTheOneWaitedFor) return 0
  write(run, marker, ['voting', found.inc, found.longestMs ?? ''])
  return 1
}
