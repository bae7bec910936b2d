import { InvalidArgumentError } from '../../core/errors.ts'
import { type Seams, systemSeams } from '../../core/seams.ts'
import { AdmissionTable, type Outlook } from './admission-table.ts'
import { whyTooFew } from './admission-words.ts'
import { quorumOf, setIdOf } from './marker.ts'
import { askerOf, type OnWait, pause, readOnWait } from './operating.ts'
import { type RedlockNode, type RedlockOptions, readNodes, readRedlockOptions } from './options.ts'
import { blocks } from './sight.ts'
import { type NodeStatus, statusesOf } from './status.ts'

/** Each either waits for the end of leases or follows another by a second. */
const PASSES_MAX = 100
const GAP_MS = 1000

export type RedlockInitOptions = RedlockOptions & {
  /** Has to be said: see what {@link redlockInit} assumes. */
  force: true
  /** Called with how long the call is about to wait, in milliseconds, each time. */
  onWait?: OnWait | undefined
}

/**
 * Lets the nodes that answer vote, though others do not: the way back when the majority lost their data
 * and a node is gone for good, or with `onEmpty: 'refuse'` the way to begin. Waits for one `maxTtlMs`,
 * as clients do. May be called again at any time, by anybody, also beside clients that work.
 *
 * Guarantees that every lease that such a node may have voted for and forgotten is over before it votes.
 *
 * Assumes that the clocks have moved forward: if the highest tokens stood only on nodes that are gone or
 * lost their data, the next are higher because time has passed. A node that is gone and comes back with
 * its data may vote at once; one that comes back without is made to wait.
 *
 * @param nodes All nodes of the set by name, also those that are gone. To be rid of one for good, see
 *   `redlockReconfigure`.
 * @returns What each node is afterwards.
 * @throws BackendUnavailableError when fewer than a quorum answer, or a marker is of other nodes; what
 *   was written only makes nodes wait. InvalidArgumentError before anything is sent.
 */
export function redlockInit(
  nodes: Readonly<Record<string, RedlockNode>>,
  options: RedlockInitOptions,
): Promise<readonly NodeStatus[]> {
  return redlockInitWith(systemSeams, nodes, options)
}

export async function redlockInitWith(
  seams: Seams,
  nodes: Readonly<Record<string, RedlockNode>>,
  given: RedlockInitOptions,
): Promise<readonly NodeStatus[]> {
  const { force, onWait, ...options } = given ?? {}
  if (force !== true) throw new InvalidArgumentError('force', force, 'true, which has to be said')
  const tell = readOnWait(onWait)
  const { keyPrefix, maxTtlMs, onEmpty } = readRedlockOptions(options)
  const settings = readNodes(nodes)
  const names = settings.map(({ name }) => name)
  const rules = { keyPrefix, maxTtlMs, onEmpty, names, setId: setIdOf(names), isForced: true }
  const askers = settings.map((node) => askerOf(seams, node))
  const table = new AdmissionTable(() => seams, askers, rules)
  for (let pass = 1; ; pass++) {
    const outlook = await table.pass()
    if (isDone(outlook)) return statusesOf(outlook.sights, maxTtlMs)
    if (isHopeless(outlook) || pass === PASSES_MAX) throw whyTooFew(outlook, 0, rules)
    const delayMs = outlook.nextMs || GAP_MS
    tell(delayMs)
    await pause(seams, delayMs)
  }
}

function isDone({ sights, votingCount }: Outlook): boolean {
  const isSettled = sights.every(({ kind }) => kind === 'voting' || kind === 'unreachable')
  return isSettled && votingCount >= quorumOf(sights.length)
}

function isHopeless({ sights }: Outlook): boolean {
  const answered = sights.filter(({ kind }) => kind !== 'unreachable')
  return sights.some(blocks) || answered.length < quorumOf(sights.length)
}
