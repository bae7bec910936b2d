import { type Seams, systemSeams } from '../../core/seams.ts'
import { waitMsOf } from './admission-table.ts'
import { setIdOf } from './marker.ts'
import { askerOf } from './operating.ts'
import { type RedlockNode, type RedlockOptions, readNodes, readRedlockOptions } from './options.ts'
import { lookAtAll, type Sight, type SightKind } from './sight.ts'

/** What a node says of itself; see {@link redlockStatus}. */
export type NodeStatus = Readonly<{
  /** Its name. */
  node: string
  /**
   * `voting`: it takes part. `waiting`: it came back without data, or is new, and votes when somebody
   * has waited for it. `empty`, `restarted`: the same, and no client has seen it yet. `closed`: its set
   * was given up for another one. `wrong-set`: its marker names other nodes than those asked for.
   * `same-server`: it is the server of another node. `unreachable`: no answer within 2 s, or a refusal.
   */
  state: SightKind
  /**
   * How long a client that sees the node now waits before it may vote, in milliseconds: one that has
   * seen it earlier waits less. Null: it votes, or waiting does not help.
   */
  waitMs: number | null
  /** The longest TTL of the prefix, as its marker has it, in milliseconds. Null: it has none. */
  maxTtlMs: number | null
  /** Of an unreachable node what is wrong, of a closed or foreign one whose it is. Else null. */
  detail: string | null
}>

/**
 * Looks at the marker of each node, once, and changes nothing.
 *
 * Does not say whether a lock is held, nor what clients with other nodes or another prefix see.
 *
 * @param nodes By name: the names are the set whose markers are looked for.
 * @param options As of the backend; `keyPrefix` decides where the markers are.
 * @returns One for each node, sorted by name. A node that does not answer is one of the states.
 * @throws InvalidArgumentError before anything is sent.
 */
export function redlockStatus(
  nodes: Readonly<Record<string, RedlockNode>>,
  options: RedlockOptions = {},
): Promise<readonly NodeStatus[]> {
  return redlockStatusWith(systemSeams, nodes, options)
}

export async function redlockStatusWith(
  seams: Seams,
  nodes: Readonly<Record<string, RedlockNode>>,
  options: RedlockOptions,
): Promise<readonly NodeStatus[]> {
  const { keyPrefix, maxTtlMs } = readRedlockOptions(options)
  const settings = readNodes(nodes)
  const set = { keyPrefix, setId: setIdOf(settings.map(({ name }) => name)) }
  const askers = settings.map((node) => askerOf(seams, node))
  return statusesOf(await lookAtAll(askers, set), maxTtlMs)
}

/** @param maxTtlMs What a prefix gets that has none yet. */
export function statusesOf(sights: readonly Sight[], maxTtlMs: number): NodeStatus[] {
  const known = sights.map(({ kind, marker }) =>
    kind === 'wrong-set' ? 0 : (marker?.maxTtlMs ?? 0),
  )
  const longestMs = Math.max(...known) || maxTtlMs
  return sights.map((sight) => {
    const { node, kind, marker } = sight
    const waits = kind === 'waiting' || kind === 'empty' || kind === 'restarted'
    return {
      node: node.name,
      state: kind,
      waitMs: waits ? waitMsOf(longestMs) : null,
      maxTtlMs: marker?.maxTtlMs ?? null,
      detail: detailOf(sight),
    }
  })
}

function detailOf({ kind, marker, error }: Sight): string | null {
  if (kind === 'unreachable') return error instanceof Error ? error.message : 'no answer'
  if (kind === 'closed') return `given up for the set with the id ${marker?.toSetId}`
  if (kind !== 'wrong-set') return null
  if (marker === null) return 'what stands at the key of its marker is not one'
  return marker.names.length > 0 ? `of the set ${marker.names.join(', ')}` : 'of a set given up'
}
