/**
 * How nodes that lost their data come to vote again: markers, incarnations and waits of two clients.
 *
 * A node has no marker (empty), or one that says waiting or voting. Each marker that says waiting has
 * a fresh random incarnation. A client notes the incarnation, waits on its own clock until everything
 * that ran when it read it has ended, reads the other nodes one after the other, and admits: by a
 * script that admits only the incarnation that it is given.
 *
 * A1  no node votes while an attempt that it forgot may still run
 * A2  any quorum of voting nodes has a counter that is not below the highest confirmed token
 * A3  from every state, the nodes can come to vote again if they all answer and lose nothing more
 *
 * A token is confirmed here in one step, by any two voting nodes; what may happen within it is the
 * matter of the token model. Time is not counted: a wait clears what was forgotten before it began.
 * Where fewer than a quorum of other nodes vote, the floor is the clock as well, which is taken to be
 * ahead of every token: that is the condition which the protocol states.
 */
import type { Emit, Goal, Model } from './explore.ts'
import { type Layout, NODES } from './state-space.ts'

const CLIENTS = 2
const QUORUM = 2

/** Of one node. */
const MARKER = 0
const EMPTY = 0
const WAITING = 1
const VOTING = 2
/** 1: an attempt that ran when the node lost its data may still run. */
const FORGETFUL = 1
/** 1: the counter is not below the highest confirmed token. */
const LEVEL = 2

/** Of one client at one node; the incarnation that it noted is the one that stands, or an old one. */
const NOTED = 3
const NOTHING = 0
const CURRENT = 1
const OLD = 2
/** 1: its wait for the incarnation that it noted is over. */
const WAITED = 4
/** 1: it admits this node next. */
const TARGET = 5
/** How it has seen this node when it read its counter for the target. */
const READ = 6
const UNREAD = 0
const SEEN_VOTING = 1
/** With the incarnation that the client had noted, and waited for. */
const SEEN_WAITING = 2
/** 1: its wait began after the last loss of the node. */
const COVERS = 7
const PER_CLIENT = 5
const BLOCK = 3 + CLIENTS * PER_CLIENT

const SHARED = NODES * BLOCK
/** 1: the floor that a client has read is not below the highest confirmed token. */
const FLOOR = SHARED
const LOSSES_LEFT = FLOOR + CLIENTS
const LENGTH = LOSSES_LEFT + 1

const LAYOUT: Layout = {
  node: [2, 1, 1, 2, 1, 1, 2, 1, 2, 1, 1, 2, 1],
  shared: [1, 1, 2],
}

/** One of them is right: the first of each. */
export interface AdmissionRules {
  /** What the script compares the marker's incarnation with: the one that was noted, or nothing. */
  readonly compares: 'noted' | 'nothing'
  /** Whose wait is needed: the client's own from having read the incarnation, anybody's, or none. */
  readonly waits: 'own' | 'anybody' | 'nobody'
  /** Whether a marker that says waiting gets an incarnation of its own each time it is written. */
  readonly incarnation: 'fresh' | 'kept'
  /** What admits while fewer than a quorum of others vote: all counters and the clock, the counters alone. */
  readonly withoutQuorum: 'clock' | 'counters' | 'never'
}

export const SOUND_ADMISSION: AdmissionRules = {
  compares: 'noted',
  waits: 'own',
  incarnation: 'fresh',
  withoutQuorum: 'clock',
}

const LOSES = 0 << 3
const QUARANTINES = 1 << 3
const NOTES = 2 << 3
const WAITED_FOR = 3 << 3
const TURNS_TO = 4 << 3
const READS = 5 << 3
const ADMITS = 6 << 3
const CONFIRMS = 7 << 3

const of = (node: number, field: number): number => node * BLOCK + field
const at = (node: number, client: number, field: number): number =>
  node * BLOCK + client * PER_CLIENT + field

export class AdmissionModel implements Model {
  readonly layout: Layout = LAYOUT
  readonly #rules: AdmissionRules
  readonly #losses: number
  readonly #next = new Uint8Array(LENGTH)

  /** @param losses How often a node loses its data, 0 to 3. */
  constructor(rules: AdmissionRules, losses: number) {
    this.#rules = rules
    this.#losses = losses
  }

  /** All nodes vote; or all are empty, and nobody knows what ran before. */
  initial(): Uint8Array[] {
    return [true, false].map((vote) => {
      const first = new Uint8Array(LENGTH)
      for (let node = 0; node < NODES; node++) {
        first[of(node, MARKER)] = vote ? VOTING : EMPTY
        first[of(node, FORGETFUL)] = vote ? 0 : 1
        first[of(node, LEVEL)] = vote ? 1 : 0
      }
      first[LOSSES_LEFT] = this.#losses
      return first
    })
  }

  /** A3. A loss is no help: it does not count as a way. */
  readonly goal: Goal = {
    isReached: (state: Uint8Array): boolean => areVoting(state, [0, 1, 2]),
    helps: (step: number): boolean => (step & ~7) !== LOSES,
    stuck: 'A3: from here the nodes cannot come to vote again',
  }

  steps(now: Uint8Array, emit: Emit): void {
    for (let node = 0; node < NODES; node++) {
      if ((now[LOSSES_LEFT] as number) > 0) this.#lose(now, node, emit)
      if (now[of(node, MARKER)] === EMPTY) this.#quarantine(now, node, emit)
      this.#confirm(now, node, emit)
      for (let client = 0; client < CLIENTS; client++) {
        this.#note(now, client, node, emit)
        this.#endWait(now, client, node, emit)
        this.#turnTo(now, client, node, emit)
        this.#read(now, client, node, emit)
        this.#admit(now, client, node, emit)
      }
    }
  }

  text(step: number, before: Uint8Array, after: Uint8Array): string {
    const client = `client ${((step >> 2) & 1) + 1}`
    const node = `node ${(step & 3) + 1}`
    const isLevel = after[of(step & 3, LEVEL)] === 1
    switch (step & ~7) {
      case LOSES:
        return `${node} loses all its data`
      case QUARANTINES:
        return `${node} is empty, and is written to wait with a new incarnation`
      case NOTES:
        return `${client} notes the incarnation of ${node}, and waits from here`
      case WAITED_FOR:
        return `the wait of ${client} for ${node} is over`
      case TURNS_TO:
        return `${client} begins to read the other nodes for ${node}`
      case READS:
        return `${client} reads ${node}, which is ${isLevel ? '' : 'not '}level`
      case ADMITS:
        return `${client} admits ${node}, which is ${isLevel ? '' : 'not '}level then`
      default:
        return confirmText(step & 3, before)
    }
  }

  textOfInitial(first: Uint8Array): string {
    return this.goal.isReached(first) ? 'all nodes vote' : 'all nodes are empty'
  }

  #after(now: Uint8Array): Uint8Array {
    this.#next.set(now)
    return this.#next
  }

  #lose(now: Uint8Array, node: number, emit: Emit): void {
    const next = this.#after(now)
    next[LOSSES_LEFT] = (now[LOSSES_LEFT] as number) - 1
    next[of(node, MARKER)] = EMPTY
    next[of(node, FORGETFUL)] = 1
    next[of(node, LEVEL)] = 0
    for (let client = 0; client < CLIENTS; client++) next[at(node, client, COVERS)] = 0
    this.#outdate(next, node)
    emit(next, LOSES | node, null)
  }

  #quarantine(now: Uint8Array, node: number, emit: Emit): void {
    const next = this.#after(now)
    next[of(node, MARKER)] = WAITING
    emit(next, QUARANTINES | node, null)
  }

  /** What was noted of an incarnation that is gone is old, unless the next one has its name. */
  #outdate(next: Uint8Array, node: number): void {
    if (this.#rules.incarnation === 'kept') return
    for (let client = 0; client < CLIENTS; client++) {
      if (next[at(node, client, NOTED)] === CURRENT) next[at(node, client, NOTED)] = OLD
    }
  }

  /** Another incarnation than it had noted: it begins anew, also with what it has read. */
  #note(now: Uint8Array, client: number, node: number, emit: Emit): void {
    if (now[of(node, MARKER)] !== WAITING || now[at(node, client, NOTED)] === CURRENT) return
    const next = this.#after(now)
    forgetReads(next, client)
    next[at(node, client, NOTED)] = CURRENT
    next[at(node, client, COVERS)] = 1
    next[at(node, client, WAITED)] = 0
    emit(next, NOTES | (client << 2) | node, null)
  }

  #endWait(now: Uint8Array, client: number, node: number, emit: Emit): void {
    if (now[at(node, client, NOTED)] === NOTHING || now[at(node, client, WAITED)] === 1) return
    const next = this.#after(now)
    next[at(node, client, WAITED)] = 1
    if (now[at(node, client, COVERS)] === 1) next[of(node, FORGETFUL)] = 0
    emit(next, WAITED_FOR | (client << 2) | node, null)
  }

  /** What it read before the wait was over does not count: it reads anew. */
  #turnTo(now: Uint8Array, client: number, node: number, emit: Emit): void {
    if (now[of(node, MARKER)] !== WAITING || !this.#hasWaited(now, client, node)) return
    if (now[at(node, client, TARGET)] === 1) return
    const next = this.#after(now)
    forgetReads(next, client)
    next[at(node, client, TARGET)] = 1
    emit(next, TURNS_TO | (client << 2) | node, null)
  }

  #hasWaited(now: Uint8Array, client: number, node: number): boolean {
    const { waits } = this.#rules
    if (now[at(node, client, NOTED)] === NOTHING) return false
    if (waits === 'nobody' || now[at(node, client, WAITED)] === 1) return true
    return waits === 'anybody' && now[at(node, 1 - client, WAITED)] === 1
  }

  /** A node that waits is of use only with the incarnation that was waited for: all must answer. */
  #read(now: Uint8Array, client: number, node: number, emit: Emit): void {
    if (now[at(node, client, TARGET)] === 1 || now[at(node, client, READ)] !== UNREAD) return
    if (!hasTarget(now, client) || now[of(node, MARKER)] === EMPTY) return
    const isVoting = now[of(node, MARKER)] === VOTING
    const isNoted = now[at(node, client, NOTED)] === CURRENT
    if (!isVoting && !(isNoted && this.#hasWaited(now, client, node))) return
    const next = this.#after(now)
    next[at(node, client, READ)] = isVoting ? SEEN_VOTING : SEEN_WAITING
    if (now[of(node, LEVEL)] === 1) next[FLOOR + client] = 1
    const { voting, waiting } = readBy(next, client)
    const isAlone = voting < QUORUM && voting + waiting === NODES - 1
    if (isAlone && this.#rules.withoutQuorum === 'clock') next[FLOOR + client] = 1
    emit(next, READS | (client << 2) | node, null)
  }

  #admit(now: Uint8Array, client: number, node: number, emit: Emit): void {
    if (now[at(node, client, TARGET)] === 0 || now[of(node, MARKER)] !== WAITING) return
    const isSame = now[at(node, client, NOTED)] === CURRENT
    if (!isSame && this.#rules.compares === 'noted') return
    const { voting, waiting } = readBy(now, client)
    const mayAlone = this.#rules.withoutQuorum !== 'never' && voting + waiting === NODES - 1
    if (voting < QUORUM && !mayAlone) return
    const next = this.#after(now)
    next[of(node, MARKER)] = VOTING
    if (now[FLOOR + client] === 1) next[of(node, LEVEL)] = 1
    this.#outdate(next, node)
    forgetReads(next, client)
    const isForgetful = now[of(node, FORGETFUL)] === 1
    const broken = isForgetful ? 'A1: it votes while an attempt that it forgot may still run' : null
    emit(next, ADMITS | (client << 2) | node, broken)
  }

  /** By the two other nodes. */
  #confirm(now: Uint8Array, node: number, emit: Emit): void {
    const two = othersThan(node)
    if (!areVoting(now, two)) return
    const next = this.#after(now)
    next[of(node, LEVEL)] = 0
    for (const one of two) next[of(one, LEVEL)] = 1
    for (let client = 0; client < CLIENTS; client++) next[FLOOR + client] = 0
    const broken = isLevel(now, two)
      ? null
      : 'A2: a token is not above one that was confirmed before'
    emit(next, CONFIRMS | node, broken)
  }
}

function confirmText(node: number, before: Uint8Array): string {
  const two = othersThan(node)
  const names = two.map((one) => one + 1).join(' and ')
  return `nodes ${names} confirm a token${isLevel(before, two) ? '' : ', and neither is level'}`
}

function othersThan(node: number): number[] {
  return [0, 1, 2].filter((one) => one !== node)
}

function areVoting(now: Uint8Array, nodes: readonly number[]): boolean {
  return nodes.every((node) => now[of(node, MARKER)] === VOTING)
}

function isLevel(now: Uint8Array, nodes: readonly number[]): boolean {
  return nodes.some((node) => now[of(node, LEVEL)] === 1)
}

function hasTarget(now: Uint8Array, client: number): boolean {
  return [0, 1, 2].some((node) => now[at(node, client, TARGET)] === 1)
}

function readBy(now: Uint8Array, client: number): { voting: number; waiting: number } {
  let [voting, waiting] = [0, 0]
  for (let node = 0; node < NODES; node++) {
    if (now[at(node, client, READ)] === SEEN_VOTING) voting += 1
    if (now[at(node, client, READ)] === SEEN_WAITING) waiting += 1
  }
  return { voting, waiting }
}

function forgetReads(next: Uint8Array, client: number): void {
  for (let node = 0; node < NODES; node++) {
    next[at(node, client, TARGET)] = 0
    next[at(node, client, READ)] = UNREAD
  }
  next[FLOOR + client] = 0
}
