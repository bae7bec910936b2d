/**
 * The token rule of N nodes that know nothing of each other, with no clock at all.
 *
 * Two attempts ask three nodes, whose counters begin anywhere. Every message may come at any time or
 * never, a key may end at any time (by its TTL, a release, or a cancel that comes late), and nodes may
 * lose all their data. An attempt holds the token T when a quorum has answered, each, that it owns
 * the node and that the token recorded there is exactly T.
 *
 * T1  no two holders have one token
 * T2  a holder whose attempt began after another was holder has the larger token
 *
 * What is left out, and why nothing is missed by it:
 * - A message that would change nothing is not executed: on its way it can do all that it could do
 *   when lost, and more.
 * - An attempt never gives up: to be silent for ever is the same to all others. Who has given up is
 *   no holder, and with two attempts a violation needs both.
 * - Only the last answer of a node to an attempt is on its way; an older one counts as lost. The same
 *   holds for two raises of one attempt to one node.
 * - The wait of a repair is what it guarantees, no time: no attempt that ran when the node lost its
 *   data still runs.
 */
import type { Emit, Model } from './explore.ts'
import { type Layout, NODES } from './state-space.ts'
import * as state from './token-state.ts'
import { ATTEMPTS, at, of, votes } from './token-state.ts'
import { stepText, textOfCounters } from './token-text.ts'

const QUORUM = 2

/** How an attempt becomes a holder, and what nodes answer: one of them is right. */
export interface TokenRules {
  /**
   * `exact`: a token that a quorum has recorded. `largest`: such a token exists, and the largest that
   * was heard is taken. `firstQuorum`: the largest of a quorum, without a second round. `anyNode`: what
   * one node has recorded.
   */
  readonly confirm: 'exact' | 'largest' | 'firstQuorum' | 'anyNode'
  /** Who is sent a raise: nodes that are known to be owned, or all of them. */
  readonly raiseTo: 'known' | 'all'
  /** What is heard of a raise: the token recorded, or only that it still is the owner. */
  readonly raiseAnswers: 'recorded' | 'owner'
  /** Whether the node looks at the owner before it raises. */
  readonly raiseChecksOwner: boolean
  /** Whether who gives a key back gives its token back too. */
  readonly counterFalls: boolean
}

/** What a node that lost its data does before it votes again. */
export type Rejoin =
  | 'wait-then-repair'
  | 'repair-then-wait'
  | 'repair-only'
  | 'wait-then-repair-of-one'
  | 'at-once'

export interface TokenScope {
  /** Counters begin at 0 to this; one of them at 0, since only differences count. */
  readonly range: number
  /** How many acquires may be executed once more. */
  readonly resends: number
  /** How often a node loses its data. */
  readonly losses: number
}

export const SOUND: TokenRules = {
  confirm: 'exact',
  raiseTo: 'known',
  raiseAnswers: 'recorded',
  raiseChecksOwner: true,
  counterFalls: false,
}

/** Kinds of steps; a step is its kind, the attempt and the node. */
export const STEPS = [
  'begins',
  'isAsked',
  'isAskedAgain',
  'hears',
  'sendsRaise',
  'isRaised',
  'refusesRaise',
  'ends',
  'endsAndFalls',
  'isRepairedByHolder',
  'holds',
  'losesData',
  'waited',
  'isRead',
  'votes',
] as const
export type StepKind = (typeof STEPS)[number]
const KIND = Object.fromEntries(STEPS.map((kind, index) => [kind, index * 8])) as Record<
  StepKind,
  number
>

export class TokenModel implements Model {
  readonly layout: Layout = state.LAYOUT
  readonly #rules: TokenRules
  readonly #scope: TokenScope
  readonly #rejoin: Rejoin
  readonly #next = new Uint8Array(state.LENGTH)

  constructor(rules: TokenRules, scope: TokenScope, rejoin: Rejoin = 'wait-then-repair') {
    this.#rules = rules
    this.#scope = scope
    this.#rejoin = rejoin
  }

  initial(): Uint8Array[] {
    const { range, resends, losses } = this.#scope
    const found: Uint8Array[] = []
    for (let largest = 0; largest <= range; largest++) {
      for (let middle = 0; middle <= largest; middle++) {
        const first = new Uint8Array(state.LENGTH)
        first[of(0, state.COUNTER)] = largest
        first[of(1, state.COUNTER)] = middle
        first[state.RESENDS_LEFT] = resends
        first[state.LOSSES_LEFT] = losses
        found.push(first)
      }
    }
    return found
  }

  steps(now: Uint8Array, emit: Emit): void {
    for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
      const status = now[state.STATUS + attempt]
      if (status === state.NOT_BEGUN) {
        this.#begin(now, attempt, emit)
        continue
      }
      if (status === state.RUNS) this.#think(now, attempt, emit)
      for (let node = 0; node < NODES; node++) {
        if (status === state.RUNS) this.#hear(now, attempt, node, emit)
        if (votes(now, node)) this.#execute(now, attempt, node, emit)
      }
    }
    for (let node = 0; node < NODES; node++) {
      if (now[of(node, state.OWNER)] !== 0) this.#end(now, node, emit)
      if (this.#scope.losses > 0) this.#lose(now, node, emit)
    }
  }

  text(step: number, before: Uint8Array, after: Uint8Array): string {
    return stepText(STEPS[step >> 3] as StepKind, (step >> 2) & 1, step & 3, before, after)
  }

  textOfInitial(first: Uint8Array): string {
    return textOfCounters(first)
  }

  /** A copy to be changed; only until the next call. */
  #after(now: Uint8Array): Uint8Array {
    this.#next.set(now)
    return this.#next
  }

  /** The second attempt is the one that begins later. */
  #begin(now: Uint8Array, attempt: number, emit: Emit): void {
    if (attempt > 0 && now[state.STATUS] === state.NOT_BEGUN) return
    const next = this.#after(now)
    next[state.STATUS + attempt] = state.RUNS
    if (attempt > 0 && now[state.STATUS] === state.HOLDS) next[state.IN_TURN] = 1
    for (let node = 0; node < NODES; node++) next[at(node, attempt, state.ASKED)] = 1
    emit(next, KIND.begins | (attempt << 2), null)
  }

  #hear(now: Uint8Array, attempt: number, node: number, emit: Emit): void {
    const answer = now[at(node, attempt, state.ANSWER)] as number
    if (answer === 0) return
    const next = this.#after(now)
    next[at(node, attempt, state.KNOWN)] = answer
    next[at(node, attempt, state.ANSWER)] = 0
    emit(next, KIND.hears | (attempt << 2) | node, null)
  }

  /** What an attempt does of its own: it is confirmed, or sends raises. */
  #think(now: Uint8Array, attempt: number, emit: Emit): void {
    let [known, largest] = [0, 0]
    for (let node = 0; node < NODES; node++) {
      const token = now[at(node, attempt, state.KNOWN)] as number
      if (token > 0) known += 1
      if (token > largest) largest = token
    }
    const { confirm, raiseTo } = this.#rules
    if (confirm === 'anyNode' && known > 0) this.#hold(now, attempt, largest, emit)
    if (known < QUORUM) return
    if (confirm === 'firstQuorum') this.#hold(now, attempt, largest, emit)
    const confirmed = agreed(now, attempt)
    if (confirmed > 0) this.#hold(now, attempt, confirm === 'largest' ? largest : confirmed, emit)
    if (confirmed > 0 || confirm === 'firstQuorum') return
    for (let node = 0; node < NODES; node++) {
      const token = now[at(node, attempt, state.KNOWN)] as number
      if (token === largest || (token === 0 && raiseTo === 'known')) continue
      if (now[at(node, attempt, state.RAISING)] === largest) continue
      const next = this.#after(now)
      next[at(node, attempt, state.RAISING)] = largest
      emit(next, KIND.sendsRaise | (attempt << 2) | node, null)
    }
  }

  #hold(now: Uint8Array, attempt: number, token: number, emit: Emit): void {
    const other = now[state.HELD + 1 - attempt] as number
    const next = this.#after(now)
    next[state.STATUS + attempt] = state.HOLDS
    next[state.HELD + attempt] = token
    for (let node = 0; node < NODES; node++) {
      next[at(node, attempt, state.KNOWN)] = 0
      next[at(node, attempt, state.ANSWER)] = 0
    }
    const step = KIND.holds | (attempt << 2)
    if (token === other) emit(next, step, `T1: two holders have the token ${token}`)
    else if (attempt === 1 && now[state.IN_TURN] === 1 && token < other) {
      emit(next, step, `T2: a later holder has ${token}, which is not above ${other}`)
    } else if (other === 0) emit(next, step, null)
    // Nothing can be violated any more once both have held.
  }

  #execute(now: Uint8Array, attempt: number, node: number, emit: Emit): void {
    const owner = now[of(node, state.OWNER)] as number
    if (owner === 0) {
      if (now[at(node, attempt, state.ASKED)] === 1) this.#grant(now, attempt, node, emit, false)
      else if ((now[state.RESENDS_LEFT] as number) > 0) this.#grant(now, attempt, node, emit, true)
      if (now[state.STATUS + attempt] === state.HOLDS) this.#restore(now, attempt, node, emit)
    }
    if (now[at(node, attempt, state.RAISING)] !== 0) this.#raise(now, attempt, node, emit)
  }

  #grant(now: Uint8Array, attempt: number, node: number, emit: Emit, again: boolean): void {
    const token = (now[of(node, state.COUNTER)] as number) + 1
    const next = this.#after(now)
    next[of(node, state.COUNTER)] = token
    next[of(node, state.OWNER)] = attempt + 1
    next[of(node, state.RECORDED)] = token
    next[at(node, attempt, state.ASKED)] = 0
    if (again) next[state.RESENDS_LEFT] = (now[state.RESENDS_LEFT] as number) - 1
    this.#answer(next, attempt, node, token)
    const kind = again ? KIND.isAskedAgain : KIND.isAsked
    emit(next, kind | (attempt << 2) | node, null)
  }

  /** A holder writes its key again on a node that has none, with the token that was confirmed. */
  #restore(now: Uint8Array, attempt: number, node: number, emit: Emit): void {
    const token = now[state.HELD + attempt] as number
    const next = this.#after(now)
    next[of(node, state.OWNER)] = attempt + 1
    next[of(node, state.RECORDED)] = token
    next[of(node, state.COUNTER)] = Math.max(token, now[of(node, state.COUNTER)] as number)
    emit(next, KIND.isRepairedByHolder | (attempt << 2) | node, null)
  }

  #raise(now: Uint8Array, attempt: number, node: number, emit: Emit): void {
    const asked = now[at(node, attempt, state.RAISING)] as number
    const isOwner = now[of(node, state.OWNER)] === attempt + 1
    const next = this.#after(now)
    next[at(node, attempt, state.RAISING)] = 0
    const recorded = isOwner ? Math.max(asked, now[of(node, state.RECORDED)] as number) : asked
    if (isOwner || !this.#rules.raiseChecksOwner) {
      if (isOwner) next[of(node, state.RECORDED)] = recorded
      next[of(node, state.COUNTER)] = Math.max(recorded, now[of(node, state.COUNTER)] as number)
      const heard = this.#rules.raiseAnswers === 'owner' ? asked : recorded
      this.#answer(next, attempt, node, heard)
      emit(next, KIND.isRaised | (attempt << 2) | node, null)
      return
    }
    // Only an answer to a request that is sent from here on makes it an owner again.
    next[at(node, attempt, state.KNOWN)] = 0
    next[at(node, attempt, state.ANSWER)] = 0
    emit(next, KIND.refusesRaise | (attempt << 2) | node, null)
  }

  /** Nobody listens to answers once it holds. */
  #answer(next: Uint8Array, attempt: number, node: number, token: number): void {
    if (next[state.STATUS + attempt] === state.RUNS) next[at(node, attempt, state.ANSWER)] = token
  }

  #end(now: Uint8Array, node: number, emit: Emit): void {
    const next = this.#after(now)
    next[of(node, state.OWNER)] = 0
    next[of(node, state.RECORDED)] = 0
    emit(next, KIND.ends | node, null)
    if (!this.#rules.counterFalls) return
    next[of(node, state.COUNTER)] = (now[of(node, state.COUNTER)] as number) - 1
    emit(next, KIND.endsAndFalls | node, null)
  }

  #lose(now: Uint8Array, node: number, emit: Emit): void {
    const phase = now[of(node, state.PHASE)] as number
    if (phase === state.LOST || phase === state.HALF) this.#rejoinStep(now, node, phase, emit)
    else if ((now[state.LOSSES_LEFT] as number) > 0) {
      const next = this.#after(now)
      next[state.LOSSES_LEFT] = (now[state.LOSSES_LEFT] as number) - 1
      for (const field of [state.COUNTER, state.OWNER, state.RECORDED, state.FORGOTTEN]) {
        next[of(node, field)] = 0
      }
      forgetReads(next)
      next[of(node, state.PHASE)] = this.#rejoin === 'at-once' ? state.VOTES : state.LOST
      if (this.#rejoin !== 'at-once') next[of(node, state.FORGOTTEN)] = running(now)
      emit(next, KIND.losesData | node, null)
    }
  }

  #rejoinStep(now: Uint8Array, node: number, phase: number, emit: Emit): void {
    const rule = this.#rejoin
    const waitsFirst = rule === 'wait-then-repair' || rule === 'wait-then-repair-of-one'
    const mayRead = waitsFirst ? phase === state.HALF : phase === state.LOST
    const mayWait = waitsFirst ? phase === state.LOST : phase === state.HALF
    if (mayWait && ((now[of(node, state.FORGOTTEN)] as number) & running(now)) === 0) {
      const next = this.#after(now)
      next[of(node, state.FORGOTTEN)] = 0
      next[of(node, state.PHASE)] = waitsFirst ? state.HALF : state.VOTES
      emit(next, (waitsFirst ? KIND.waited : KIND.votes) | node, null)
    }
    if (mayRead) this.#read(now, node, emit)
  }

  /** The others are read one after the other; the counter of a node that does not vote keeps the largest. */
  #read(now: Uint8Array, node: number, emit: Emit): void {
    const needed = this.#rejoin === 'wait-then-repair-of-one' ? 1 : QUORUM
    for (let other = 0; other < NODES; other++) {
      if (other === node || now[of(other, state.PHASE)] !== state.VOTES) continue
      const next = this.#after(now)
      const counter = now[of(other, state.COUNTER)] as number
      next[of(node, state.COUNTER)] = Math.max(counter, now[of(node, state.COUNTER)] as number)
      next[of(other, state.PHASE)] = state.VOTES_READ
      if (readCount(next) >= needed) this.#readAll(next, node)
      emit(next, KIND.isRead | other, null)
    }
  }

  #readAll(next: Uint8Array, node: number): void {
    forgetReads(next)
    const isLast = this.#rejoin !== 'repair-then-wait'
    next[of(node, state.PHASE)] = isLast ? state.VOTES : state.HALF
    if (isLast) next[of(node, state.FORGOTTEN)] = 0
  }
}

/** The token that a quorum has recorded, as far as the attempt has heard; 0: there is none. */
function agreed(now: Uint8Array, attempt: number): number {
  const [one, two, three] = [0, 1, 2].map((node) => now[at(node, attempt, state.KNOWN)] as number)
  if (one === two || one === three) return one as number
  return two === three ? (two as number) : 0
}

/** A bit for each attempt. */
function running(now: Uint8Array): number {
  const [first, second] = [now[state.STATUS], now[state.STATUS + 1]]
  return (first === state.RUNS ? 1 : 0) | (second === state.RUNS ? 2 : 0)
}

function forgetReads(next: Uint8Array): void {
  for (let node = 0; node < NODES; node++) {
    if (next[of(node, state.PHASE)] === state.VOTES_READ) next[of(node, state.PHASE)] = state.VOTES
  }
}

function readCount(next: Uint8Array): number {
  let count = 0
  for (let node = 0; node < NODES; node++) {
    if (next[of(node, state.PHASE)] === state.VOTES_READ) count += 1
  }
  return count
}
