/**
 * Sixteen contenders in one process on one name, each holding it for a timer of 1 ms.
 *
 * The reference is one hand-written worker on the same name that never has to wait: no order of
 * contenders can be faster than no contention. Two holders at once are a failure, not a figure.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Contestant, Locker } from '../contestant.ts'
import type { Entry, Sample } from '../measure.ts'
import { sumOfCounts } from '../server-look.ts'
import type { Bed } from './pairs.ts'

export const CONTENDERS = 16
const SECTION_MS = 1
const LOCK_NAME = 'bench:contended'
const LEARN_ROUNDS = 3

/** @param sliceMs How long contenders begin anew; each ends the section that it waits for. */
export async function contendersEntry(
  contestant: Contestant,
  sliceMs: number,
  bed: Bed,
): Promise<Entry> {
  const { who, variant, client, isOwnerChecked, hasToken } = contestant
  const isReference = who === 'hand-written' && hasToken
  const inFlight = isReference ? 1 : CONTENDERS
  const { look } = bed
  const locker = await contestant.connect(bed.port)
  try {
    await look.forgetKeys()
    // Twice, because the first time scripts are loaded, which is not what is asked about.
    await contend(locker, inFlight, LEARN_ROUNDS * inFlight * SECTION_MS)
    const requests = await look.learnRequests(async () => {
      await contend(locker, inFlight, LEARN_ROUNDS * inFlight * SECTION_MS)
    })
    let slices = 0
    return {
      who,
      variant,
      client,
      inFlight,
      isReference,
      isOwnerChecked,
      slice: async () => {
        await look.resetCounts()
        const sample = await contend(locker, inFlight, sliceMs, slices++)
        return { ...sample, requests: sumOfCounts(await look.counts(), requests) }
      },
      close: () => locker.close(),
    }
  } catch (error) {
    await locker.close()
    throw error
  }
}

/**
 * @param first The worker that asks first: whoever does gets one section more in a slice that ends in
 *   the middle of a round, and that should not always be the same one.
 * @throws when two hold the name at once.
 */
export async function contend(
  locker: Locker,
  workers: number,
  sliceMs: number,
  first: number = 0,
): Promise<Sample> {
  const waitsMs: number[] = []
  const shares = new Array<number>(workers).fill(0)
  let inTime = 0
  let holders = 0
  let mostHolders = 0
  const beganAtMs = performance.now()
  const endMs = beganAtMs + sliceMs
  const work = async (worker: number): Promise<void> => {
    while (performance.now() < endMs) {
      const askedAtMs = performance.now()
      const release = await locker.acquire(LOCK_NAME)
      waitsMs.push(performance.now() - askedAtMs)
      holders++
      mostHolders = Math.max(mostHolders, holders)
      await sleep(SECTION_MS)
      holders--
      await release()
      shares[worker] = (shares[worker] ?? 0) + 1
      if (performance.now() <= endMs) inTime++
    }
  }
  const settled = await Promise.allSettled(
    shares.map((_, place) => work((first + place) % workers)),
  )
  const failed = settled.find((one) => one.status === 'rejected')
  if (failed !== undefined) throw failed.reason
  if (mostHolders > 1) throw new Error(`${mostHolders} held one name at once`)
  // The rate is that of the crowd: when the slice is over, the last ones find a lock without rivals.
  // On a machine that was stopped for as long as the slice, nothing ended in time.
  const rate =
    inTime > 0
      ? { count: inTime, elapsedMs: sliceMs }
      : { count: waitsMs.length, elapsedMs: performance.now() - beganAtMs }
  return { ...rate, latenciesMs: waitsMs, shares }
}
