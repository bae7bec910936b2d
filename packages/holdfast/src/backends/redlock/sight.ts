/**
 * What one node looks like to the programs of one set of nodes, and the questions that tell it.
 *
 * Everything is judged by the marker and by the run_id that the node answered in the same step: a
 * marker that another process wrote says nothing of what this one has kept.
 */
import type { RedisScript } from '../../clients/redis.ts'
import { markerKey, stripeKeys } from '../../wire/keys.ts'
import { textsOf } from '../../wire/replies.ts'
import type { NodeAsker } from './admission-port.ts'
import { type Marker, parseMarker } from './marker.ts'
import { ADMIT, COUNTERS, QUARANTINE, STATE } from './scripts/admission.ts'

/** A node that is asked for what it is has nothing to do with a lease; nobody's deadline is near. */
const ASK_MS_MAX = 2000

export type SightKind =
  /** It may vote. */
  | 'voting'
  /** It may have forgotten locks, and somebody has said so on it. */
  | 'waiting'
  /** It has no marker of this set, and none of another. */
  | 'empty'
  /** The marker was written on another process: a restart, a failover. */
  | 'restarted'
  /** This set was given up for another one. */
  | 'closed'
  /** The marker is of another set, or not one that we can read. */
  | 'wrong-set'
  /** Another node of the set is the same server, which would vote twice. */
  | 'same-server'
  | 'unreachable'

/** While one of these is seen, the nodes are not the set that they are taken for. */
const BLOCKING: ReadonlySet<SightKind> = new Set(['closed', 'wrong-set', 'same-server'])

export function blocks({ kind }: Sight): boolean {
  return BLOCKING.has(kind)
}

export interface Sight {
  readonly node: NodeAsker
  readonly kind: SightKind
  /** What stands at the key of the marker; '' for nothing. */
  readonly text: string
  readonly marker: Marker | null
  readonly runId: string
  /** A primary that no replica follows. */
  readonly isAlone: boolean
  /** Microseconds since 1970 on the clock of the node. */
  readonly timeUs: bigint
  /** Of an unreachable node: what the question ended with. */
  readonly error: unknown
}

/** Whose marker is ours, and where it stands. */
export interface SetOfNodes {
  readonly keyPrefix: string
  readonly setId: string
}

export async function lookAtAll(nodes: readonly NodeAsker[], set: SetOfNodes): Promise<Sight[]> {
  const sights = await Promise.all(nodes.map((node) => lookAt(node, set)))
  const seen = new Set<string>()
  return sights.map((sight) => {
    const isSeen = sight.runId !== '' && seen.has(sight.runId)
    seen.add(sight.runId)
    return isSeen ? { ...sight, kind: 'same-server' } : sight
  })
}

async function lookAt(node: NodeAsker, set: SetOfNodes): Promise<Sight> {
  const keys = [markerKey(set.keyPrefix)]
  try {
    const texts = await node.ask(STATE, keys, [], textsOf, ASK_MS_MAX)
    const [text = '', runId = '', role, replicaCount, timeUs = '0'] = texts
    const isAlone = role === 'master' && replicaCount === '0'
    const seen = { node, runId, isAlone, timeUs: BigInt(timeUs), error: null }
    return { ...seen, ...judged(text, runId, set.setId), text }
  } catch (error) {
    const nothing = { kind: 'unreachable', text: '', marker: null, runId: '' } as const
    return { ...nothing, node, isAlone: false, timeUs: 0n, error }
  }
}

function judged(text: string, runId: string, setId: string): Pick<Sight, 'kind' | 'marker'> {
  const marker = parseMarker(text)
  return { kind: kindOf(text, marker, runId, setId), marker }
}

function kindOf(text: string, marker: Marker | null, runId: string, setId: string): SightKind {
  if (text === '') return 'empty'
  if (marker === null) return 'wrong-set'
  // The other set was closed in favour of ours: what it kept here is over, but for the counters.
  if (marker.toSetId === setId) return 'empty'
  if (marker.setId !== setId) return 'wrong-set'
  if (marker.state === 'closed') return 'closed'
  return marker.runId === runId ? marker.state : 'restarted'
}

/** By stripe; null where there is none. */
export type Counters = readonly (bigint | null)[]

/**
 * The counters of a node, if it was the same before and after it was asked for them; otherwise null.
 * They may have gone back in between, with older data, and a look before alone would not tell.
 */
export async function countersOf(sight: Sight, set: SetOfNodes): Promise<Counters | null> {
  const counters = await readCounters(sight.node, set)
  if (counters === null) return null
  const { text, runId } = await lookAt(sight.node, set)
  return text === sight.text && runId === sight.runId ? counters : null
}

async function readCounters(node: NodeAsker, set: SetOfNodes): Promise<Counters | null> {
  const keys = stripeKeys(set.keyPrefix)
  try {
    const texts = await node.ask(COUNTERS, keys, [], textsOf, ASK_MS_MAX)
    return texts.map((text) => (/^\d{1,19}$/.test(text) ? BigInt(text) : null))
  } catch {
    return null
  }
}

/** Runs a script that answers with the marker. What it could not do is found by the next look. */
export async function changed(
  sight: Sight,
  set: SetOfNodes,
  script: RedisScript,
  args: string[],
): Promise<Sight> {
  const isOfCounters = script === QUARANTINE || script === ADMIT
  const counters = isOfCounters ? stripeKeys(set.keyPrefix) : []
  const keys = [markerKey(set.keyPrefix), ...counters]
  try {
    const text = await sight.node.ask(script, keys, args, String, ASK_MS_MAX)
    return { ...sight, ...judged(text, sight.runId, set.setId), text }
  } catch (error) {
    return { ...sight, kind: 'unreachable', error }
  }
}
