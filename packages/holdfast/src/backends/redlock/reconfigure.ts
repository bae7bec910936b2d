/**
 * Gives up one set of nodes for another one.
 *
 * C1. Q nodes of the old set are closed before a lease of the new set is granted: none of the old set is
 *     granted any more, and those granted before are over after one wait.
 * C2. The nodes of the old set that the new one has too are closed last: before that the new set cannot
 *     begin, because to it their markers are foreign.
 * C3. The new set begins above the counters of Q closed nodes, read after the wait, and above the clock.
 * C4. Every step asks what stands and does what is missing, so that anybody may begin again anywhere.
 */
import {
  BackendUnavailableError,
  InvalidArgumentError,
  type LockError,
  type UnavailableReason,
} from '../../core/errors.ts'
import { type Seams, systemSeams } from '../../core/seams.ts'
import type { NodeAsker } from './admission-port.ts'
import { waitMsOf } from './admission-table.ts'
import { floorTexts, highestOf, isComplete, withClock } from './floors.ts'
import { quorumOf, setIdOf } from './marker.ts'
import { askerOf, type OnWait, pause, readOnWait } from './operating.ts'
import {
  type RedlockNode,
  type RedlockOptions,
  type RedlockSettings,
  readNodes,
  readRedlockOptions,
} from './options.ts'
import { ADMIT, CLOSE, QUARANTINE } from './scripts/admission.ts'
import {
  type Counters,
  changed,
  countersOf,
  lookAtAll,
  type SetOfNodes,
  type Sight,
} from './sight.ts'

/** A node of the new set may lose its data during the wait, and is then waited for again. */
const ROUNDS_MAX = 20

export type RedlockReconfigureOptions = RedlockOptions & {
  /** Called with how long the call is about to wait, in milliseconds, each time. */
  onWait?: OnWait | undefined
}

/**
 * Moves the locks of a key prefix from one set of nodes to another: members are added, removed or
 * replaced. Stop the programs that use the old set, or let them be refused from the first step on; start
 * those of the new set when it has resolved. Takes one `maxTtlMs`, in which nothing is granted.
 *
 * Guarantees, while a majority of the old set keep their data, that no lease of the old set is valid when
 * one of the new set is granted, and that tokens go on rising. Whatever ends it, calling it again with
 * the same nodes goes on; there is no way back but another move.
 *
 * Does not guard against programs that are started with the new nodes alone while none of these is of
 * the old set: nothing on them tells of it.
 *
 * @param from All nodes of the old set by name, also those that are gone: a majority has to answer.
 * @param to All nodes of the new set by name; all have to answer. A server that is in both has the name
 *   in each that it has there.
 * @param options `keyPrefix` as of the backend. `maxTtlMs` is what the new set gets if it is longer than
 *   that of the old one; it never gets shorter.
 * @throws BackendUnavailableError where too few nodes answer, or a marker is of other nodes still: what
 *   was done stays, and another call goes on from there. InvalidArgumentError before anything is sent.
 */
export async function redlockReconfigure(
  from: Readonly<Record<string, RedlockNode>>,
  to: Readonly<Record<string, RedlockNode>>,
  options: RedlockReconfigureOptions = {},
): Promise<void> {
  return redlockReconfigureWith(systemSeams, from, to, options)
}

export async function redlockReconfigureWith(
  seams: Seams,
  from: Readonly<Record<string, RedlockNode>>,
  to: Readonly<Record<string, RedlockNode>>,
  { onWait, ...options }: RedlockReconfigureOptions,
): Promise<void> {
  const tell = readOnWait(onWait)
  const settings = readRedlockOptions(options)
  const [old, next] = [membersOf(seams, from, settings), membersOf(seams, to, settings)]
  if (old.set.setId === next.set.setId) {
    throw new InvalidArgumentError('to', next.names, 'other node names than those of from')
  }
  const askedMs = options.maxTtlMs === undefined ? 0 : settings.maxTtlMs
  await new Move(seams, old, next, askedMs, tell).run()
}

interface Members {
  readonly names: readonly string[]
  readonly nodes: readonly NodeAsker[]
  readonly set: SetOfNodes
  readonly quorum: number
}

function membersOf(
  seams: Seams,
  nodes: Readonly<Record<string, RedlockNode>>,
  { keyPrefix }: RedlockSettings,
): Members {
  const settings = readNodes(nodes)
  const names = settings.map(({ name }) => name)
  return {
    names,
    nodes: settings.map((node) => askerOf(seams, node)),
    set: { keyPrefix, setId: setIdOf(names) },
    quorum: quorumOf(names.length),
  }
}

type Noted = Readonly<{ inc: string; readAtMs: number }>

class Move {
  readonly #seams: Seams
  readonly #old: Members
  readonly #next: Members
  readonly #tell: OnWait
  #longestMs: number
  #closedAtMs = Number.POSITIVE_INFINITY
  readonly #noted = new Map<NodeAsker, Noted>()
  /** Of the old set, what may have come back with older counters: they are not among those of C3. */
  readonly #lost = new Set<NodeAsker>()

  /** @param askedMs The longest TTL that the new set shall have at least, in milliseconds. */
  constructor(seams: Seams, old: Members, next: Members, askedMs: number, tell: OnWait) {
    this.#seams = seams
    this.#old = old
    this.#next = next
    this.#longestMs = askedMs
    this.#tell = tell
  }

  async run(): Promise<void> {
    for (let round = 1; round <= ROUNDS_MAX; round++) {
      const closed = await this.#close()
      const sights = await this.#makeWait()
      if (sights.every(({ kind }) => kind === 'voting')) return
      const restMs = this.#restMs(sights)
      if (restMs > 0) {
        this.#tell(restMs)
        await pause(this.#seams, restMs)
      } else await this.#admit(sights, closed)
    }
    throw undone(`the nodes of the new set lost their data ${ROUNDS_MAX} times meanwhile`)
  }

  /** C1, C2. @returns What is over for the old set, at least a quorum. */
  async #close(): Promise<readonly Sight[]> {
    const looking = this.#lookNext()
    // Both at once; where both refuse, it is told what is wrong with the old set alone.
    looking.catch(() => {})
    const sights = await this.#lookOld()
    const next = await looking
    const shared = new Set(next.map(({ runId }) => runId))
    const left = sights.filter((sight) => this.#hasLeft(sight))
    const open = sights.filter((sight) => sight.kind === 'voting')
    if (left.length + open.length < this.#old.quorum) throw this.#tooFewOld(sights)
    const lost = sights.filter(({ kind }) => kind === 'waiting' || kind === 'restarted')
    for (const { node } of lost) this.#lost.add(node)
    const isShared = ({ runId }: Sight): boolean => shared.has(runId)
    const before = open.filter((sight) => !isShared(sight))
    left.push(...(await this.#closeEach(before)))
    const after = open.filter(isShared)
    if (left.length + after.length < this.#old.quorum) throw this.#tooFewOld(sights)
    left.push(...(await this.#closeEach(after)))
    if (left.length < this.#old.quorum) throw this.#tooFewOld(sights)
    // They vote for nobody, but the new set may need them.
    await this.#closeEach(lost.filter(isShared))
    this.#closedAtMs = Math.min(this.#closedAtMs, this.#seams.nowMs())
    return left
  }

  async #closeEach(sights: readonly Sight[]): Promise<Sight[]> {
    const to = this.#next.set.setId
    const tried: Sight[] = []
    // One after another, so that whoever is killed here leaves the fewest possible half closed.
    for (const sight of sights) {
      tried.push(await changed(sight, this.#old.set, CLOSE, [sight.text, to]))
    }
    return tried.filter((sight) => this.#hasLeft(sight))
  }

  /** Whether it will not vote for the old set again: closed, or of the new set already. */
  #hasLeft({ marker }: Sight): boolean {
    const to = this.#next.set.setId
    return marker !== null && (marker.toSetId === to || marker.setId === to)
  }

  async #lookOld(): Promise<Sight[]> {
    const sights = await lookAtAll(this.#old.nodes, this.#old.set)
    this.#hear(sights)
    const foreign = sights.find(
      (sight) =>
        sight.kind === 'same-server' ||
        ((sight.kind === 'closed' || sight.kind === 'wrong-set') && !this.#hasLeft(sight)),
    )
    if (foreign !== undefined) throw strange(foreign, 'the old')
    return sights
  }

  async #lookNext(): Promise<Sight[]> {
    const sights = await lookAtAll(this.#next.nodes, this.#next.set)
    const away = sights.find(({ kind }) => kind === 'unreachable')
    if (away !== undefined) throw unreachable(away, 'every node of the new set has to answer')
    const foreign = sights.find((sight) => sight.kind === 'same-server' || this.#isTaken(sight))
    if (foreign !== undefined) throw strange(foreign, 'the new')
    this.#hear(sights)
    return sights
  }

  /** Whether it works for somebody else: not for the old set, and not closed. */
  #isTaken({ kind, marker }: Sight): boolean {
    if (kind !== 'wrong-set' || marker?.state === 'closed') return false
    return marker?.setId !== this.#old.set.setId
  }

  #hear(sights: readonly Sight[]): void {
    for (const { marker } of sights) {
      this.#longestMs = Math.max(this.#longestMs, marker?.maxTtlMs ?? 0)
    }
  }

  /** Nodes of the new set that do not vote yet get its marker; noted from having read it. */
  async #makeWait(): Promise<readonly Sight[]> {
    const seen = await this.#lookNext()
    const { set, names } = this.#next
    const args = [set.setId, String(names.length), String(this.#longestMs), names.join(',')]
    const sights = await Promise.all(
      seen.map(async (sight) => {
        if (sight.kind === 'voting' || sight.kind === 'waiting') return sight
        // A set that had this node before was given up, in favour of whom does not matter any more.
        const free = sight.marker?.state === 'closed' ? await this.#freed(sight) : sight
        if (free.kind === 'wrong-set') throw strange(free, 'the new')
        return changed(free, set, QUARANTINE, [this.#seams.nonce(), ...args, free.text])
      }),
    )
    const readAtMs = this.#seams.nowMs()
    for (const { node, kind, marker, error } of sights) {
      if (kind === 'unreachable') throw unreachable({ node, error }, 'its marker was not written')
      const inc = marker?.inc ?? ''
      if (this.#noted.get(node)?.inc !== inc) this.#noted.set(node, { inc, readAtMs })
    }
    this.#hear(sights)
    return sights
  }

  #freed(sight: Sight): Promise<Sight> {
    const { set } = this.#next
    return changed(sight, set, CLOSE, [sight.text, set.setId])
  }

  #restMs(sights: readonly Sight[]): number {
    const waiting = sights.filter(({ kind }) => kind === 'waiting')
    const since = waiting.map(({ node }) => this.#noted.get(node)?.readAtMs ?? 0)
    const sinceMs = Math.max(this.#closedAtMs, ...since)
    return Math.max(0, sinceMs + waitMsOf(this.#longestMs) - this.#seams.nowMs())
  }

  /** C3. */
  async #admit(sights: readonly Sight[], closed: readonly Sight[]): Promise<void> {
    const { set, quorum } = this.#next
    const voting = sights.filter(({ kind }) => kind === 'voting')
    const known = voting.length >= quorum ? [] : await this.#countersOfOld(closed)
    const own = await Promise.all(sights.map((sight) => countersOf(sight, set)))
    if (own.some((counters) => counters === null)) return
    const highest = highestOf([...known, ...own.filter((counters) => counters !== null)])
    const waiting = sights.filter(({ kind }) => kind === 'waiting')
    const admitted = await Promise.all(
      waiting.map((sight) => {
        const floors = floorTexts(withClock(highest, sight, this.#seams.wallMs()))
        return changed(sight, set, ADMIT, [sight.marker?.inc ?? '', '', ...floors])
      }),
    )
    const failed = admitted.find(({ kind }) => kind === 'unreachable')
    if (failed !== undefined) throw unreachable(failed, 'it was not let in')
  }

  async #countersOfOld(closed: readonly Sight[]): Promise<Counters[]> {
    const sound = closed.filter(
      ({ node, marker, runId }) => marker?.runId === runId && !this.#lost.has(node),
    )
    const all = await Promise.all(sound.map((sight) => countersOf(sight, this.#old.set)))
    const known = all.filter((counters) => counters !== null && isComplete(counters)) as Counters[]
    if (known.length >= this.#old.quorum) return known
    throw undone(
      `only ${known.length} of ${this.#old.names.length} nodes of the old set still have their counters, ` +
        `${this.#old.quorum} are needed: the next tokens might be smaller than those of before; ` +
        'if the clocks have moved forward since, `holdfast redlock init --force` on the new set goes on',
    )
  }

  #tooFewOld(sights: readonly Sight[]): LockError {
    const { quorum, names } = this.#old
    const states = sights.map(({ node, kind }) => `"${node.name}" is ${kind}`).join(', ')
    const cause = sights.find(({ kind }) => kind === 'unreachable')?.error
    const words =
      `${quorum} of the ${names.length} nodes of the old set have to vote, or be closed in favour of ` +
      `the new set: ${states}; call it again when they do`
    return undone(words, cause)
  }
}

function strange({ node, kind, marker }: Sight, which: string): BackendUnavailableError {
  if (kind === 'same-server') {
    return undone(`node "${node.name}" of ${which} set is the server of another node of that set`)
  }
  if (marker === null) return undone(`what stands at the marker of node "${node.name}" is not one`)
  const whose =
    marker.toSetId === null
      ? `is of the set ${marker.names.join(', ')}`
      : `was closed in favour of the set with the id ${marker.toSetId}`
  return undone(`node "${node.name}" of ${which} set ${whose}; nothing was written on it`)
}

function unreachable({ node, error }: Pick<Sight, 'node' | 'error'>, words: string): LockError {
  return undone(`no answer from node "${node.name}": ${words}`, error)
}

function undone(words: string, cause?: unknown): BackendUnavailableError {
  const why: UnavailableReason = cause instanceof BackendUnavailableError ? cause.why : 'no-quorum'
  return new BackendUnavailableError(why, words, { cause })
}
