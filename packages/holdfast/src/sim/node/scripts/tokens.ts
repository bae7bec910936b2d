/** Fencing tokens, and the counters that they are drawn from. */
import type { Bytes } from '../bytes.ts'
import type { ScriptRun } from '../script-run.ts'
import type { ScriptModel } from './model.ts'

const TOKEN_MAX = '9223372036854775807'

/** Decimal text without leading zeros: the longer one is the larger. */
export function isAtLeast(text: Bytes, other: Bytes): boolean {
  return text.length === other.length ? text >= other : text.length > other.length
}

export type Drawn = Readonly<{ token: Bytes; nowUs: Bytes }>

/**
 * max(counter + 1, clock), and the counter stands there after it, without a TTL whatever it had.
 * Null: the counter is at its end, and stays there.
 */
export function draw(run: ScriptRun, counter: Bytes): Drawn | null {
  const nowUs = String(run.nowUs)
  const last = run.swap(counter, nowUs)
  if (last === null || !isAtLeast(last, nowUs)) return { token: nowUs, nowUs }
  run.set(counter, last, 'for ever')
  if (last === TOKEN_MAX) return null
  return { token: run.increment(counter), nowUs }
}

/** A proposal further from the node's clock than this is not taken. */
const PROPOSED_OFF_US_MAX = 60_000_000

/** max(last + 1, proposed), where `last` stands at the counter. Null: the counter is at its end. */
export function drawProposed(
  run: ScriptRun,
  counter: Bytes,
  last: Bytes,
  proposed: Bytes,
): Drawn | null {
  const nowUs = String(run.nowUs)
  const isNear = Math.abs(Number(proposed) - run.nowUs) <= PROPOSED_OFF_US_MAX
  const token = isNear ? proposed : nowUs
  if (lift(run, counter, last, token)) return { token, nowUs }
  if (last === TOKEN_MAX) return null
  return { token: run.increment(counter), nowUs }
}

/** To no less than `token`. @returns Whether it was below. */
export function lift(run: ScriptRun, counter: Bytes, last: Bytes, token: Bytes): boolean {
  if (isAtLeast(last, token)) return false
  run.set(counter, token, 'for ever')
  return true
}

export const raise: ScriptModel = (run, [counter = ''], [token = '']) => {
  const last = run.get(counter)
  if (last !== null && isAtLeast(last, token)) return 0
  run.set(counter, token, 'for ever')
  return 1
}
