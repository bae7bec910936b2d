/** A step of the token model in words. */
import { NODES } from './state-space.ts'
import type { StepKind } from './token-model.ts'
import * as state from './token-state.ts'
import { at, of } from './token-state.ts'

const ATTEMPT = ['A', 'B'] as const

export function textOfCounters(first: Uint8Array): string {
  const counters = Array.from({ length: NODES }, (_, node) => first[of(node, state.COUNTER)])
  return `the counters of nodes 1, 2, 3 stand at ${counters.join(', ')}`
}

export function stepText(
  kind: StepKind,
  attempt: number,
  node: number,
  before: Uint8Array,
  after: Uint8Array,
): string {
  const who = ATTEMPT[attempt] as string
  const name = `node ${node + 1}`
  const counter = after[of(node, state.COUNTER)]
  const recorded = after[of(node, state.RECORDED)]
  switch (kind) {
    case 'begins':
      return `${who} begins, and asks all nodes`
    case 'isAsked':
      return `${name} grants the lock to ${who} with ${recorded}`
    case 'isAskedAgain':
      return `${name} executes the acquire of ${who} once more, and grants with ${recorded}`
    case 'hears':
      return `${who} hears ${after[at(node, attempt, state.KNOWN)]} from ${name}`
    case 'sendsRaise':
      return `${who} asks ${name} to raise to ${after[at(node, attempt, state.RAISING)]}`
    case 'isRaised':
      return raisedText(name, who, attempt + 1 === after[of(node, state.OWNER)], after, node)
    case 'refusesRaise':
      return `${name} refuses the raise of ${who}, which does not own it, and ${who} hears that`
    case 'ends':
      return `on ${name} the lock of ${ownerText(before, node)} ends`
    case 'endsAndFalls':
      return `on ${name} the lock of ${ownerText(before, node)} ends, and its counter falls to ${counter}`
    case 'isRepairedByHolder':
      return `${name} writes the lock of the holder ${who} again with ${recorded}`
    case 'holds':
      return `${who} counts itself holder with ${after[state.HELD + attempt]}`
    case 'losesData':
      return `${name} loses all its data`
    case 'waited':
      return `the wait for ${name} is over: whatever it forgot has ended`
    case 'isRead':
      return `who repairs reads ${counter} on ${name}`
    case 'votes':
      return `the wait for ${name} is over, and it votes again with its counter at ${counter}`
    default:
      return kind satisfies never
  }
}

function raisedText(
  name: string,
  who: string,
  isOwner: boolean,
  after: Uint8Array,
  node: number,
): string {
  if (!isOwner) return `${name} obeys the raise of ${who}, which does not own it`
  return `${name} obeys the raise of ${who}, and has ${after[of(node, state.RECORDED)]} recorded`
}

function ownerText(before: Uint8Array, node: number): string {
  return ATTEMPT[(before[of(node, state.OWNER)] as number) - 1] as string
}
