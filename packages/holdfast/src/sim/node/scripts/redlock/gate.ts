/** The marker of a Redlock's node, and whether the node may vote by it. */
import type { Bytes } from '../../bytes.ts'
import type { ScriptRun } from '../../script-run.ts'
import type { Reply } from '../model.ts'

export interface Marker {
  readonly state: 'waiting' | 'voting' | 'closed' | 'unknown'
  readonly inc: Bytes
  readonly setId: Bytes
  readonly longestMs: number
  readonly runId: Bytes
  /** Names of nodes, or the set in whose favour it was closed. */
  readonly rest: Bytes
}

const STATES: Readonly<Record<Bytes, Marker['state']>> = {
  'hfm1:w:': 'waiting',
  'hfm1:v:': 'voting',
  'hfm1:c:': 'closed',
}

/** `hfm1:<state>:<inc 22>:<set id 22>:<n 2>:<longest TTL 8>:<run_id 40>:<rest>`; reads anything. */
export function parse(text: Bytes): Marker {
  return {
    state: STATES[text.slice(0, 7)] ?? 'unknown',
    inc: text.slice(7, 29),
    setId: text.slice(30, 52),
    longestMs: Number(text.slice(56, 64)) || 0,
    runId: text.slice(65, 105),
    rest: text.slice(106),
  }
}

/** For the set in whose favour it was closed it is as if there were none. */
export function isClosedFor(marker: Marker, setId: Bytes): boolean {
  return marker.state === 'closed' && marker.rest === setId
}

export interface Asked {
  readonly marker: Bytes | null
  readonly setId: Bytes
  /** As the client says it; '': as the server does. */
  readonly runId: Bytes
  /** What stands there; undefined: the script needs none. */
  readonly counter?: Bytes | null
  /** Of what is to be written. */
  readonly ttlMs?: number
}

/** What the script answers instead of doing anything; null: it may. */
export function refusal(run: ScriptRun, asked: Asked): Reply {
  const { marker: text, setId, ttlMs } = asked
  if (text === null) return ['amnesia', 'empty', '']
  const marker = parse(text)
  if (isClosedFor(marker, setId)) return ['amnesia', 'empty', text]
  const isOfSet = marker.state === 'waiting' || marker.state === 'voting'
  if (!isOfSet || marker.setId !== setId) return ['wrong-set', text]
  if (marker.runId !== (asked.runId || run.runId)) return ['amnesia', 'restarted', text]
  if (marker.state === 'waiting') return ['amnesia', 'waiting', text]
  if (asked.counter === null) return ['amnesia', 'no-counter', text]
  const isTooLong = ttlMs !== undefined && ttlMs > marker.longestMs
  return isTooLong ? ['too-long', marker.longestMs] : null
}
