/**
 * What a node keeps of its own right to vote: one text for each key prefix, at `<prefix>#hf:marker`.
 *
 *     hfm1:<state>:<inc 22>:<setId 22>:<n 2 digits>:<maxTtlMs 8 digits>:<runId 40 hex>:<rest>
 *
 * state w: the node may have forgotten locks and does not vote; v: it votes; c: its set of nodes was
 * given up for another one. `inc` is random and fresh at each write of w. The rest is the names of
 * the set, sorted and joined by commas; of c the id of the set that came after. Widths are fixed, so
 * that scripts compare parts of it by position.
 */
import { createHash } from 'node:crypto'

export type MarkerState = 'waiting' | 'voting' | 'closed'

export interface Marker {
  readonly state: MarkerState
  readonly inc: string
  readonly setId: string
  readonly nodeCount: number
  readonly maxTtlMs: number
  /** Of the process that the marker was written on. */
  readonly runId: string
  /** Sorted; of a closed marker none. */
  readonly names: readonly string[]
  /** Of a closed marker; otherwise null. */
  readonly toSetId: string | null
}

const FORM = /^hfm1:([wvc]):([\w-]{22}):([\w-]{22}):(\d{2}):(\d{8}):([0-9a-f]{40}):(.+)$/s
const STATES: ReadonlyMap<string, MarkerState> = new Map([
  ['w', 'waiting'],
  ['v', 'voting'],
  ['c', 'closed'],
])
const SET_ID_LENGTH = 22

/** Null: no marker of ours, whatever it is. */
export function parseMarker(text: string): Marker | null {
  const parts = FORM.exec(text)
  if (parts === null) return null
  const [, letter = '', inc = '', setId = '', count, maxTtl, runId = '', rest = ''] = parts
  const state = STATES.get(letter)
  if (state === undefined) return null
  if (state === 'closed' && rest.length !== SET_ID_LENGTH) return null
  return {
    ...{ state, inc, setId, runId },
    nodeCount: Number(count),
    maxTtlMs: Number(maxTtl),
    names: state === 'closed' ? [] : rest.split(','),
    toSetId: state === 'closed' ? rest : null,
  }
}

/** Computed, never drawn: programs that know the same nodes need not agree on anything first. */
export function setIdOf(names: readonly string[]): string {
  const sorted = [...names].sort()
  const digest = createHash('sha256').update(sorted.join('\n'), 'utf8').digest('base64url')
  return digest.slice(0, SET_ID_LENGTH)
}

/** More than half. */
export function quorumOf(nodeCount: number): number {
  return Math.floor(nodeCount / 2) + 1
}
