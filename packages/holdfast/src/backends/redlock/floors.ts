/** Counters of several nodes: what no token of a node that forgot may be below. */
import type { Counters, Sight } from './sight.ts'

/** As far as a script believes the clock of whoever asks, rather than its own. */
const CLOCKS_APART_US_MAX = 60_000_000n

/** Whether none is missing, so that the node knows of every token it has granted. */
export function isComplete(counters: Counters): boolean {
  return counters.every((counter) => counter !== null)
}

/** The largest of each stripe; null where no node has one. */
export function highestOf(all: readonly Counters[]): Counters {
  const [first = [], ...others] = all
  return first.map((counter, stripe) =>
    others.reduce((most, counters) => larger(most, counters[stripe] ?? null), counter),
  )
}

function larger(one: bigint | null, other: bigint | null): bigint | null {
  if (one === null || other === null) return one ?? other
  return one > other ? one : other
}

/** As the script wants them, where the nodes that know suffice. */
export function floorTexts(highest: Counters): string[] {
  return highest.map((counter) => String(counter ?? 0n))
}

/**
 * The same where tokens may have been lost with all that knew them: time has passed since, so none was
 * above the clock. A clock that is far from that of the node is not believed.
 *
 * @param wallMs The clock of whoever asks, milliseconds since 1970.
 */
export function withClock(highest: Counters, { timeUs }: Sight, wallMs: number): Counters {
  const ownUs = BigInt(Math.floor(wallMs * 1000))
  const apartUs = ownUs > timeUs ? ownUs - timeUs : timeUs - ownUs
  const clockUs = apartUs > CLOCKS_APART_US_MAX ? timeUs : ownUs
  return highest.map((counter) => larger(counter, clockUs))
}
