/** What a state of the token model consists of, by place in its array of numbers. */
import { type Layout, NODES } from './state-space.ts'

/** Of one node; the place is that in the node's block. */
export const COUNTER = 0
/** 0 nobody; otherwise the number of the attempt plus one. */
export const OWNER = 1
/** The token recorded with the owner; 0 nobody. */
export const RECORDED = 2
export const PHASE = 3
/** The attempts that ran when the node lost its data, a bit each. */
export const FORGOTTEN = 4

/** Of one attempt at one node. 1: the acquire was sent, and may be executed at any time. */
export const ASKED = 5
/** To which token a raise on its way raises; 0: none is. */
export const RAISING = 6
/** The token in an answer on its way; 0: none is. */
export const ANSWER = 7
/** The token in the last answer that came; 0: the attempt does not know that it owns the node. */
export const KNOWN = 8
const PER_ATTEMPT = 4
export const BLOCK = 13

/** Shared, by place behind the blocks. */
export const STATUS: number = NODES * BLOCK
/** The token of a holder; 0: it holds nothing. */
export const HELD: number = STATUS + 2
/** 1: the second attempt began when the first one held already. */
export const IN_TURN: number = HELD + 2
export const RESENDS_LEFT: number = IN_TURN + 1
export const LOSSES_LEFT: number = RESENDS_LEFT + 1

export const ATTEMPTS = 2
export const NOT_BEGUN = 0
export const RUNS = 1
export const HOLDS = 2

export const VOTES = 0
/** It votes, and who repairs another node has read its counter. */
export const VOTES_READ = 1
export const LOST = 2
/** The first of two steps of a repair is done. */
export const HALF = 3

export const LAYOUT: Layout = {
  node: [3, 2, 3, 2, 2, 1, 3, 3, 3, 1, 3, 3, 3],
  shared: [2, 2, 3, 3, 1, 2, 2],
}

export const LENGTH: number = LOSSES_LEFT + 1

export const of = (node: number, field: number): number => node * BLOCK + field

/** @param field One of those that an attempt has at a node. */
export const at = (node: number, attempt: number, field: number): number =>
  node * BLOCK + attempt * PER_ATTEMPT + field

export const votes = (state: Uint8Array, node: number): boolean =>
  (state[of(node, PHASE)] as number) <= VOTES_READ
