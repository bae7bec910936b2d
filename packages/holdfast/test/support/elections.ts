/** Candidates and observers whose steps a test makes one by one. */
import type { Leadership, Term } from '../../src/election.ts'
import type { VirtualClock } from '../../src/testkit/virtual-clock.ts'
import { type Watched, watch } from './open-engine.ts'

/** A loop over what an election gives, without the loop. */
export interface Steps<T> {
  /** The body has ended: on to the next round. */
  next(): Watched<IteratorResult<T, undefined>>
  /** `break`, or an error in the body. */
  end(): Watched<unknown>
}

export function stepsOf<T>(clock: VirtualClock, loop: AsyncIterable<T>): Steps<T> {
  const iterator = loop[Symbol.asyncIterator]() as AsyncIterator<T, undefined>
  return {
    next: () => watch(clock, iterator.next()),
    end: () => watch(clock, iterator.return?.() ?? Promise.reject(new Error('no return()'))),
  }
}

/** What a round gave; fails where it gave nothing. */
export function given<T>(round: Watched<IteratorResult<T, undefined>>): T {
  if (round.state !== 'resolved') {
    throw new Error(`the round is ${round.state}`, { cause: round.error })
  }
  const { value } = round as { value: IteratorResult<T, undefined> }
  if (value.done === true) throw new Error('the loop is over')
  return value.value
}

export function isOver(round: Watched<IteratorResult<unknown, undefined>>): boolean {
  return round.state === 'resolved' && round.value?.done === true
}

/** Of a leadership the parts that tests compare; null where nobody leads. */
export function shown(leadership: Leadership | null): unknown {
  return leadership && [leadership.fencingToken, leadership.value]
}

/** Lets time pass until the candidate leads, at most `ms`. */
export async function led(
  clock: VirtualClock,
  round: Watched<IteratorResult<Term, undefined>>,
  ms = 0,
): Promise<Term> {
  await clock.advance(ms)
  return given(round)
}
