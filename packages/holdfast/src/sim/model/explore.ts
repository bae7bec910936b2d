/**
 * Searches all states that a model can reach, the nearest first.
 *
 * A search that ends without a violation has seen every state of its scope: it is a proof for that
 * scope, and for nothing beyond. One that finds a violation has found a shortest way to one.
 */
import { assert } from '../../core/assert.ts'
import { type Layout, StateSpace } from './state-space.ts'

/**
 * @param next Is only lent.
 * @param broken What is violated by this step; null: nothing.
 */
export type Emit = (next: Uint8Array, step: number, broken: string | null) => void

export interface Model {
  readonly layout: Layout
  initial(): readonly Uint8Array[]
  /** Emits what each step that is possible in `state` makes of it. */
  steps(state: Uint8Array, emit: Emit): void
  /** For people: what happened. */
  text(step: number, before: Uint8Array, after: Uint8Array): string
  /** The state in which a trace begins. */
  textOfInitial(state: Uint8Array): string
  readonly goal?: Goal
}

/** What must stay possible: from every state, by steps that help, one can be reached where it is so. */
export interface Goal {
  isReached(state: Uint8Array): boolean
  helps(step: number): boolean
  /** What is violated where it is not so. */
  readonly stuck: string
}

export interface Search {
  /** That differ by more than the names of nodes. */
  readonly states: number
  /** How many were found on the way, each as often as a step led to it. */
  readonly steps: number
  /** False: `statesMax` was reached, and the search proves nothing. */
  readonly complete: boolean
  /** A shortest way to a violation, a line a step; empty: there is none. */
  readonly trace: readonly string[]
}

/** A state takes 28 bytes, and a third more while the space grows. */
const STATES_MAX = 40_000_000

export function explore(model: Model, statesMax: number = STATES_MAX): Search {
  const space = new StateSpace(model.layout)
  for (const state of model.initial()) space.add(state, -1)
  const ways = new Ways()
  const state = new Uint8Array(space.length)
  let steps = 0
  let violated = false
  let from = 0
  const emit: Emit = (next, step, broken) => {
    steps += 1
    violated ||= broken !== null
    if (violated) return
    const to = space.add(next, from)
    if (model.goal?.helps(step)) ways.add(from, to)
  }
  for (; from < space.count && space.count <= statesMax; from++) {
    space.read(from, state)
    model.steps(state, emit)
    if (violated) break
  }
  const states = space.count
  if (violated) return { states, steps, complete: true, trace: traceTo(model, space, from) }
  const complete = from === states
  const stuck = complete ? firstStuck(model, space, ways) : -1
  return { states, steps, complete, trace: stuck < 0 ? [] : traceTo(model, space, stuck) }
}

/** Which state leads to which, for goals. */
class Ways {
  readonly #from: number[] = []
  readonly #to: number[] = []

  add(from: number, to: number): void {
    this.#from.push(from)
    this.#to.push(to)
  }

  /** Adds to `reaching` whatever leads to one of them, in any number of steps. */
  backFrom(reaching: Uint8Array): void {
    for (let changed = true; changed; ) {
      changed = false
      // Later states first: most ways lead on, so one round does nearly all.
      for (let way = this.#from.length - 1; way >= 0; way--) {
        const [from, to] = [this.#from[way] as number, this.#to[way] as number]
        if (reaching[from] === 1 || reaching[to] === 0) continue
        reaching[from] = 1
        changed = true
      }
    }
  }
}

/** The nearest state from which the goal is out of reach; -1: there is none. */
function firstStuck(model: Model, space: StateSpace, ways: Ways): number {
  if (model.goal === undefined) return -1
  const reaching = new Uint8Array(space.count)
  const state = new Uint8Array(space.length)
  for (let index = 0; index < space.count; index++) {
    space.read(index, state)
    if (model.goal.isReached(state)) reaching[index] = 1
  }
  ways.backFrom(reaching)
  return reaching.indexOf(0)
}

/**
 * The way to a violation in which each node keeps its name: the stored states have them sorted, so
 * each step is taken again from the state as it is.
 */
function traceTo(model: Model, space: StateSpace, last: number): string[] {
  const [first, ...path] = space.path(last)
  let state = model.initial().find((one) => space.isAt(first as number, one))
  assert(state !== undefined, 'a path begins in a first state')
  const lines = [model.textOfInitial(state)]
  for (const index of path) {
    const step = stepFrom(model, state, (next) => space.isAt(index, next))
    assert(step !== undefined, 'a step of a path can be taken again')
    lines.push(step.text)
    state = step.next
  }
  const violation = stepFrom(model, state, (_next, broken) => broken !== null)
  if (violation === undefined) return [...lines, `broken: ${model.goal?.stuck}`]
  return [...lines, violation.text, `broken: ${violation.broken}`]
}

type Step = Readonly<{ next: Uint8Array; text: string; broken: string | null }>

function stepFrom(
  model: Model,
  state: Uint8Array,
  isIt: (next: Uint8Array, broken: string | null) => boolean,
): Step | undefined {
  const found: Step[] = []
  model.steps(state, (next, step, broken) => {
    if (found.length > 0 || !isIt(next, broken)) return
    found.push({ next: next.slice(), text: model.text(step, state, next), broken })
  })
  return found[0]
}
