/**
 * What must be true of every history.
 *
 * I1. While clocks are bounded, no two leases of one name are valid at one moment of true time.
 * I2. No token is given twice; if a lease was held before another one's attempt began, its token is
 *     smaller.
 * I3. Every acknowledged write is in its register at the end.
 * I4. The newest holder is never refused by the guard.
 * I5. Where little goes wrong, no name is free for longer than three TTLs while somebody waits for it.
 * I6. A lease that was over is never valid again, and its signal comes no later than one turn of the
 *     event loop after its deadline, in a process that runs.
 *
 * I7. An owner that was cancelled never has a key of a lock node again, and no key outlives its TTL.
 * I8. Counters never fall, but by a declared loss of data.
 *
 * I7 and I8 are judged while a schedule runs, by whoever can see the keys: stores/node-watch.ts.
 * Errors that only a bug can throw count as broken too: `error`.
 */
import type { HeldRecord, History } from './history.ts'
import { type Scenario, TTL_MS } from './scenarios.ts'

export type Invariant = 'I1' | 'I2' | 'I3' | 'I4' | 'I5' | 'I6' | 'I7' | 'I8' | 'error'
export type Violation = Readonly<{ invariant: Invariant; what: string }>

/** Timers count in whole milliseconds, and the boot clock, which may decide, in steps of ten. */
const SIGNAL_LATE_MS_MAX = 25

/**
 * Measured, not derived: in 1,500 schedules of `calm` the longest was 815 ms, two TTLs, after a crash; one
 * TTL more is left for rarer ones. Milliseconds.
 */
export const FREE_MS_MAX: number = 3 * TTL_MS

/** What a scenario asserts besides what always holds. */
export type Asserted = Pick<Scenario, 'hasBoundedClocks' | 'isCalm'>

export function violationsOf(history: History, asserted: Asserted): Violation[] {
  return [
    ...(asserted.hasBoundedClocks ? overlaps(history) : []),
    ...(asserted.isCalm ? neglect(history) : []),
    ...repeatedTokens(history),
    ...fallenTokens(history),
    ...lostWrites(history),
    ...falseRefusals(history),
    ...revivals(history),
    ...history.atNodes,
    ...history.strangeErrors.map((what): Violation => ({ invariant: 'error', what })),
  ]
}

function named({ process, lockName, token }: HeldRecord): string {
  return `${lockName} with token ${token} at ${process}`
}

export function overlaps({ held }: History): Violation[] {
  const found: Violation[] = []
  const inOrder = [...held].sort((one, other) => one.heldFromMs - other.heldFromMs)
  inOrder.forEach((earlier, place) => {
    for (const later of inOrder.slice(place + 1)) {
      if (later.lockName !== earlier.lockName || later.heldFromMs >= earlier.validUntilMs) continue
      const what =
        `${named(later)} was held from ${later.heldFromMs.toFixed(3)}, while ${named(earlier)} ` +
        `was valid until ${earlier.validUntilMs.toFixed(3)}`
      found.push({ invariant: 'I1', what })
    }
  })
  return found
}

export function repeatedTokens({ held }: History): Violation[] {
  const seen = new Map<string, HeldRecord>()
  return held.flatMap((one): Violation[] => {
    const key = `${one.lockName} ${one.token}`
    const other = seen.get(key)
    seen.set(key, one)
    return other
      ? [{ invariant: 'I2', what: `${named(one)} was given to ${other.process} too` }]
      : []
  })
}

/** A sweep: beginnings and grants by time, with the largest token held so far. */
export function fallenTokens({ held }: History): Violation[] {
  const found: Violation[] = []
  const events = held.flatMap((lease) => [
    { atMs: lease.beganAtMs, lease, isBegin: true },
    { atMs: lease.heldFromMs, lease, isBegin: false },
  ])
  events.sort((one, other) => one.atMs - other.atMs || Number(other.isBegin) - Number(one.isBegin))
  const largest = new Map<string, HeldRecord>()
  const before = new Map<HeldRecord, HeldRecord>()
  for (const { lease, isBegin } of events) {
    const most = largest.get(lease.lockName)
    if (isBegin) {
      if (most) before.set(lease, most)
      continue
    }
    const earlier = before.get(lease)
    if (earlier && earlier.token >= lease.token) {
      const what = `${named(earlier)} was held before the attempt for ${named(lease)} began`
      found.push({ invariant: 'I2', what })
    }
    if (!most || most.token < lease.token) largest.set(lease.lockName, lease)
  }
  return found
}

export function lostWrites({ writes, registers }: History): Violation[] {
  return writes.flatMap(({ id, lockName, token, outcome }): Violation[] => {
    const isKept = id === null || registers.get(lockName)?.includes(id)
    if (outcome !== 'acknowledged' || isKept) return []
    const what = `write ${id} to ${lockName} with token ${token} was acknowledged, and is not there`
    return [{ invariant: 'I3', what }]
  })
}

export function falseRefusals({ writes, held }: History): Violation[] {
  return writes.flatMap(({ lockName, token, atMs, outcome }): Violation[] => {
    if (outcome !== 'refused') return []
    const isNewer = (one: HeldRecord): boolean =>
      one.lockName === lockName && one.token > token && one.heldFromMs <= atMs
    if (held.some(isNewer)) return []
    const what = `${lockName} with token ${token} was refused, and nobody held a newer one`
    return [{ invariant: 'I4', what }]
  })
}

export function neglect({ longestFreeMs }: History): Violation[] {
  return [...longestFreeMs].flatMap(([lockName, forMs]): Violation[] => {
    if (forMs <= FREE_MS_MAX) return []
    const what = `${lockName} was free for ${forMs.toFixed(0)} ms, and somebody waited for it`
    return [{ invariant: 'I5', what }]
  })
}

export function revivals({ held }: History): Violation[] {
  return held.flatMap((lease): Violation[] => {
    const found: Violation[] = []
    if (lease.isRevived) {
      found.push({ invariant: 'I6', what: `${named(lease)} was over, and then valid again` })
    }
    if (lease.signalLateMs > SIGNAL_LATE_MS_MAX) {
      const late = lease.signalLateMs.toFixed(3)
      found.push({ invariant: 'I6', what: `the signal of ${named(lease)} came ${late} ms late` })
    }
    return found
  })
}
