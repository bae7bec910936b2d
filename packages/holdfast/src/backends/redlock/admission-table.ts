/**
 * When a node may vote again that may have forgotten locks: one procedure for a new key prefix, a
 * restart and lost data. Any client runs it, at any time, beside any other.
 *
 * Guarantee: while the majority of the nodes keep their data, no node votes for a name before every
 * lease is over that it may have voted for and forgotten, and none with a counter below a token that
 * it may have granted. If the majority lost them: the same for leases; tokens rise if the clocks have
 * moved forward.
 *
 * A1. Whoever lets a node vote has itself waited since it read that very `inc`, which is fresh at each
 *     loss: nobody goes by the word of another, who may have waited for an earlier one.
 * A2. Counters are read after the wait, never before: a token that the node voted for may be confirmed
 *     on others until the wait is over.
 * A3. The wait is as long as the longest TTL that stands in any marker read so far.
 * A4. If any marker is of another set of nodes, or two nodes are one server, nothing is written.
 *
 * The rows, of what is seen of N nodes, Q of them a quorum (docs/backends/redlock.md has them in full):
 * empty and restarted nodes are made to wait; waiting ones vote after the wait, with the counters of Q
 * others that vote, or, if fewer do, with those of all N and the clock.
 */
import type { Seams } from '../../core/seams.ts'
import type { NodeAsker } from './admission-port.ts'
import { floorTexts, highestOf, isComplete, withClock } from './floors.ts'
import { quorumOf } from './marker.ts'
import { ADMIT, ADOPT_RUN, QUARANTINE } from './scripts/admission.ts'
import {
  blocks,
  type Counters,
  changed,
  countersOf,
  lookAtAll,
  type SetOfNodes,
  type Sight,
} from './sight.ts'

/** Clocks may differ in rate by 1 %, and answers are read late. */
const DRIFT_SHARE = 0.01
const MARGIN_MS = 100

/** How long after `maxTtlMs` was read every lease of that length is over, in milliseconds. */
export function waitMsOf(maxTtlMs: number): number {
  return maxTtlMs * (1 + DRIFT_SHARE) + MARGIN_MS
}

export interface AdmissionRules extends SetOfNodes {
  /** Of all nodes of the set, sorted. */
  readonly names: readonly string[]
  /** Of a prefix that no node knows yet. */
  readonly maxTtlMs: number
  readonly onEmpty: 'wait' | 'fresh' | 'refuse'
  /** The operator has said so: a node that does not answer is not waited for, `refuse` is overruled. */
  readonly isForced: boolean
}

/** What one pass over the nodes has left. */
export interface Outlook {
  readonly sights: readonly Sight[]
  readonly votingCount: number
  /** Until the last node that waits may vote, as far as time is the reason; null: none waits. */
  readonly waitMs: number | null
  /** When another pass may find something to do, in milliseconds; null: when somebody reports it. */
  readonly nextMs: number | null
}

type Plan = Readonly<{ nodes: readonly Sight[]; highest: Counters; byClock: boolean }>
type Noted = Readonly<{ inc: string; readAtMs: number }>

export class AdmissionTable {
  readonly #seams: () => Seams
  readonly #nodes: readonly NodeAsker[]
  readonly #rules: AdmissionRules
  readonly #quorum: number
  /** By node, the marker that we wait for, since we read it. */
  readonly #noted = new Map<NodeAsker, Noted>()
  /** Nodes that seem to vote, and are said to have lost a counter. */
  readonly #suspects = new Set<NodeAsker>()
  #longestMs = 0

  constructor(seams: () => Seams, nodes: readonly NodeAsker[], rules: AdmissionRules) {
    this.#seams = seams
    this.#nodes = nodes
    this.#rules = rules
    this.#quorum = quorumOf(nodes.length)
  }

  /** Its next pass asks whether the node has all its counters. */
  suspect(node: NodeAsker): void {
    this.#suspects.add(node)
  }

  /** Whether we wait for this very marker of the node already. */
  isNoted(node: NodeAsker, inc: string): boolean {
    return this.#noted.get(node)?.inc === inc
  }

  /** Looks at every node and does what the rows say. Never two at a time; never rejects for a node. */
  async pass(): Promise<Outlook> {
    const set = this.#rules
    const seen = await lookAtAll(this.#nodes, set)
    this.#hear(seen)
    // A4.
    if (seen.some(blocks)) return this.#told(seen)
    const maxTtlMs = this.#longestMs > 0 ? this.#longestMs : set.maxTtlMs
    const settled = await Promise.all(seen.map((sight) => this.#quarantined(sight, maxTtlMs)))
    this.#hear(settled)
    this.#note(settled)
    const plan = await this.#planFor(settled)
    if (plan === null) return this.#told(settled)
    const admitted = settled.map((sight) =>
      plan.nodes.includes(sight) ? this.#admitted(sight, plan) : sight,
    )
    return this.#told(await Promise.all(admitted))
  }

  /** A3. Of another set nothing is heard: its leases are not ours. */
  #hear(sights: readonly Sight[]): void {
    for (const { marker } of sights) {
      const isOurs = marker?.setId === this.#rules.setId || marker?.toSetId === this.#rules.setId
      if (isOurs) this.#longestMs = Math.max(this.#longestMs, marker?.maxTtlMs ?? 0)
    }
  }

  /** A1: from now on, which is after it was read. */
  #note(sights: readonly Sight[]): void {
    const readAtMs = this.#seams().nowMs()
    for (const { node, kind, marker } of sights) {
      const inc = kind === 'waiting' ? (marker?.inc ?? null) : null
      if (inc !== null && !this.isNoted(node, inc)) this.#noted.set(node, { inc, readAtMs })
      // What cannot be seen may still stand, and is compared before it counts.
      if (inc === null && kind !== 'unreachable') this.#noted.delete(node)
    }
  }

  async #quarantined(sight: Sight, maxTtlMs: number): Promise<Sight> {
    const { node, kind, marker, text, isAlone } = sight
    const isSuspect = kind === 'voting' && this.#suspects.has(node)
    if (kind !== 'empty' && kind !== 'restarted' && !isSuspect) return sight
    const set = this.#rules
    if (kind === 'restarted' && node.isDurable && isAlone && marker?.state === 'voting') {
      const adopted = await changed(sight, set, ADOPT_RUN, [text])
      if (adopted.kind !== 'restarted') return adopted
    }
    const { names, setId } = set
    const count = String(names.length)
    const args = [this.#seams().nonce(), setId, count, String(maxTtlMs), names.join(','), text]
    const after = await changed(sight, set, QUARANTINE, args)
    if (after.kind !== 'unreachable') this.#suspects.delete(node)
    return after
  }

  /** Who may be let in now, and with which counters; null: nobody. */
  async #planFor(sights: readonly Sight[]): Promise<Plan | null> {
    const { onEmpty, isForced } = this.#rules
    const voting = sights.filter(({ kind }) => kind === 'voting')
    const ripe = sights.filter((sight) => this.#restMs(sight) === 0)
    if (voting.length >= this.#quorum) return this.#planByVoting(ripe, voting)
    const answered = sights.filter(({ kind }) => kind !== 'unreachable')
    const isWhole = answered.length === sights.length
    if (!isWhole && !(isForced && answered.length >= this.#quorum)) return null
    if (onEmpty === 'refuse' && !isForced) return null
    if (answered.every((sight) => sight.kind === 'voting' || ripe.includes(sight))) {
      return this.#planByAll(ripe, answered)
    }
    const isNew = answered.every(({ kind }) => kind === 'waiting')
    return onEmpty === 'fresh' && isWhole && isNew ? this.#planIfFresh(answered) : null
  }

  /** A2. */
  async #planByVoting(ripe: readonly Sight[], voting: readonly Sight[]): Promise<Plan | null> {
    if (ripe.length === 0) return null
    const known = await this.#completeCountersOf(voting)
    if (known.length < this.#quorum) return null
    return { nodes: ripe, highest: highestOf(known), byClock: false }
  }

  /** A2. Every node must tell, those that wait as well: one may know what no other does. */
  async #planByAll(ripe: readonly Sight[], answered: readonly Sight[]): Promise<Plan | null> {
    const voting = answered.filter((sight) => !ripe.includes(sight))
    const known = await this.#completeCountersOf(voting)
    const others = await Promise.all(ripe.map((sight) => countersOf(sight, this.#rules)))
    const told = [...known, ...others.filter((counters) => counters !== null)]
    if (told.length < answered.length) return null
    return { nodes: ripe, highest: highestOf(told), byClock: true }
  }

  /** No wait: the user says that nobody has leases here, and no node has a trace of any. */
  async #planIfFresh(waiting: readonly Sight[]): Promise<Plan | null> {
    const all = await Promise.all(waiting.map((sight) => countersOf(sight, this.#rules)))
    const isFresh = all.every((counters) => counters?.every((counter) => counter === null))
    if (!isFresh) return null
    return { nodes: waiting, highest: all[0] ?? [], byClock: true }
  }

  async #completeCountersOf(voting: readonly Sight[]): Promise<Counters[]> {
    const all = await Promise.all(voting.map((sight) => countersOf(sight, this.#rules)))
    return all.filter((counters, place) => {
      if (counters === null) return false
      const node = voting[place]?.node
      if (node !== undefined && !isComplete(counters)) this.#suspects.add(node)
      return isComplete(counters)
    }) as Counters[]
  }

  /** A1: the script compares the `inc`. */
  async #admitted(sight: Sight, { highest, byClock }: Plan): Promise<Sight> {
    const floors = byClock ? withClock(highest, sight, this.#seams().wallMs()) : highest
    const args = [sight.marker?.inc ?? '', '', ...floorTexts(floors)]
    return changed(sight, this.#rules, ADMIT, args)
  }

  /** How long a node that waits has to, in milliseconds; null: it does not wait, or was not read. */
  #restMs({ node, kind, marker }: Sight): number | null {
    const noted = this.#noted.get(node)
    if (kind !== 'waiting' || noted === undefined || noted.inc !== marker?.inc) return null
    const untilMs = noted.readAtMs + waitMsOf(this.#longestMs)
    return Math.max(0, untilMs - this.#seams().nowMs())
  }

  #told(sights: readonly Sight[]): Outlook {
    const rests = sights.map((sight) => this.#restMs(sight)).filter((rest) => rest !== null)
    const votingCount = sights.filter(({ kind }) => kind === 'voting').length
    const isUndone =
      !sights.some(blocks) &&
      (this.#suspects.size > 0 ||
        sights.some((sight) => ['empty', 'restarted'].includes(sight.kind)) ||
        sights.some((sight) => sight.kind === 'waiting' && !(this.#restMs(sight) ?? 0)))
    const later = rests.filter((rest) => rest > 0)
    return {
      sights,
      votingCount,
      waitMs: rests.length === 0 ? null : Math.max(...rests),
      nextMs: isUndone ? 0 : later.length === 0 ? null : Math.min(...later),
    }
  }
}
