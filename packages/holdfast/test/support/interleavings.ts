/** Runs several programs step by step, in a given order of their steps. */
import { setTimeout as sleep } from 'node:timers/promises'
import { outcome } from '../../src/testkit/guard-suite-harness.ts'

/** Waits before a step until it is this program's turn. */
export type Pause = () => Promise<void>
export type Program = (pause: Pause) => Promise<unknown>

/** After the schedule, whoever is not done goes on in turn; no program has more steps than this. */
const STEPS_MAX = 100
/** At least 20 seconds. */
const LOOKS_MAX = 20_000

class Actor {
  settled: PromiseSettledResult<unknown> | null = null
  #go: (() => void) | null = null

  constructor(program: Program) {
    const pause: Pause = () =>
      new Promise((resolve) => {
        this.#go = resolve
      })
    void outcome(program(pause)).then((settled) => {
      this.settled = settled
    })
  }

  /** Neither at a pause nor done: a statement of it is on its way, or waits for a lock. */
  get isAway(): boolean {
    return this.#go === null && this.settled === null
  }

  go(): void {
    const go = this.#go
    this.#go = null
    go?.()
  }
}

/**
 * @param schedule The index of the program whose step is next. A program that waits for a lock misses
 *   its turn.
 * @param waiting How many statements wait for a lock, as the server says.
 */
export async function play(
  programs: readonly Program[],
  schedule: readonly number[],
  waiting: () => Promise<number>,
): Promise<readonly PromiseSettledResult<unknown>[]> {
  const actors = programs.map((program) => new Actor(program))
  const isQuiet = async (): Promise<boolean> => {
    const away = actors.filter((actor) => actor.isAway).length
    return away === 0 || (await waiting()) === away
  }
  const rest = Array.from({ length: STEPS_MAX * actors.length }, (_, step) => step % actors.length)
  for (const index of [...schedule, ...rest]) {
    if (actors.every(({ settled }) => settled !== null)) break
    await settle(isQuiet)
    actors[index]?.go()
  }
  return actors.map(({ settled }) => {
    if (settled === null) throw new Error(`a program has more than ${STEPS_MAX} steps`)
    return settled
  })
}

/** Looks more often than a test usually does: there are thousands of steps. */
async function settle(isQuiet: () => Promise<boolean>): Promise<void> {
  for (let look = 0; look < LOOKS_MAX; look++) {
    if (await isQuiet()) return
    await sleep(1)
  }
  throw new Error('a program is neither at a pause, nor done, nor does it wait for a lock')
}

/** Every order of `steps` steps each of two programs. */
export function* ordersOfTwo(steps: number): Generator<readonly number[]> {
  for (let mask = 0; mask < 2 ** (2 * steps); mask++) {
    const order = Array.from({ length: 2 * steps }, (_, place) => (mask >> place) & 1)
    if (order.filter((index) => index === 1).length === steps) yield order
  }
}

/** A drawn order of `steps` steps each of `programs` programs; the same one for the same seed. */
export function drawnOrder(programs: number, steps: number, seed: number): readonly number[] {
  const order = Array.from({ length: programs * steps }, (_, place) => place % programs)
  let state = seed
  for (let place = order.length - 1; place > 0; place--) {
    // The generator of Numerical Recipes, modulo 2^32.
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    const other = state % (place + 1)
    const here = order[place] ?? 0
    order[place] = order[other] ?? 0
    order[other] = here
  }
  return order
}
