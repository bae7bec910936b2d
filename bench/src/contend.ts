/** Workers that want one name again and again, and what is made of what they saw. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Locker } from './contestant.ts'
import type { Sample } from './measure.ts'
import { largest } from './statistics.ts'

const LOCK_NAME = 'bench:contended'
/** A timer; it lasts a little longer. */
export const SECTION_MS = 1

/** From one slice to the next; not a divisor of 16, nor of 18. */
const STRIDE = 5

/** Times are those of {@link machineMs}. */
export interface Section {
  readonly worker: number
  readonly askedAtMs: number
  readonly heldAtMs: number
  readonly endedAtMs: number
}

/** One clock for all processes of a machine: milliseconds of the kernel's monotonic clock. */
export function machineMs(): number {
  return Number(process.hrtime.bigint()) / 1e6
}

export interface Crowd {
  readonly workers: number
  /** Numbers of the workers begin here, so that those of several processes differ. */
  readonly firstWorker: number
  readonly endMs: number
  /**
   * Which one asks first: those at the head get one section more in a slice that ends in the middle of
   * a round, and that should not always be the same ones.
   */
  readonly turn: number
}

/** Nobody asks after `endMs`; whoever waits then still gets the lock. Rejects when one of them does. */
export async function contend(locker: Locker, crowd: Crowd): Promise<Section[]> {
  const sections: Section[] = []
  const work = async (worker: number): Promise<void> => {
    for (;;) {
      const askedAtMs = machineMs()
      if (askedAtMs >= crowd.endMs) return
      const release = await locker.acquire(LOCK_NAME)
      const heldAtMs = machineMs()
      await sleep(SECTION_MS)
      sections.push({ worker, askedAtMs, heldAtMs, endedAtMs: machineMs() })
      await release()
    }
  }
  const { workers, firstWorker, turn } = crowd
  const inTurn = Array.from({ length: workers }, (_, place) => (turn * STRIDE + place) % workers)
  const settled = await Promise.allSettled(inTurn.map((place) => work(firstWorker + place)))
  const failed = settled.find((one) => one.status === 'rejected')
  if (failed !== undefined) throw failed.reason
  return sections
}

/**
 * What all workers of a slice did.
 *
 * @throws when two held the name at once, in whatever processes.
 */
export function sampleOf(
  sections: readonly Section[],
  workers: number,
  beganAtMs: number,
  endMs: number,
): Sample {
  const most = mostAtOnce(sections)
  if (most > 1) throw new Error(`${most} held one name at once`)
  const shares = new Array<number>(workers).fill(0)
  for (const { worker } of sections) shares[worker] = (shares[worker] ?? 0) + 1
  const latenciesMs = sections.map(({ askedAtMs, heldAtMs }) => heldAtMs - askedAtMs)
  // The rate is that of the crowd: when the slice is over, the last ones find a lock without rivals.
  const inTime = sections.filter(({ endedAtMs }) => endedAtMs <= endMs).length
  if (inTime > 0) return { count: inTime, elapsedMs: endMs - beganAtMs, latenciesMs, shares }
  // On a machine that was stopped for as long as the slice, nothing ended in time.
  const elapsedMs = largest(sections.map(({ endedAtMs }) => endedAtMs)) - beganAtMs
  return { count: sections.length, elapsedMs, latenciesMs, shares }
}

function mostAtOnce(sections: readonly Section[]): number {
  const steps = sections.flatMap(({ heldAtMs, endedAtMs }) => [
    { atMs: heldAtMs, change: 1 },
    { atMs: endedAtMs, change: -1 },
  ])
  // At the same moment the one that ends goes first: it ended before its release was sent.
  steps.sort((a, b) => a.atMs - b.atMs || a.change - b.change)
  let holders = 0
  let most = 0
  for (const { change } of steps) {
    holders += change
    most = Math.max(most, holders)
  }
  return most
}
