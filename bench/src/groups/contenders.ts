/**
 * Contenders on one name, each holding it for a timer of 1 ms.
 *
 * The reference is one hand-written worker on the same name that never has to wait: no order of
 * contenders can be faster than no contention. Two holders at once are a failure, not a figure.
 */
import { contend, machineMs, SECTION_MS, type Section, sampleOf } from '../contend.ts'
import type { Contestant } from '../contestant.ts'
import type { Entry, Sample } from '../measure.ts'
import type { RedisBed } from './redis-bed.ts'

export const CONTENDERS = 16
const LEARN_ROUNDS = 3

/** How a crowd is let loose: in this process, or in several. */
export interface Arena {
  readonly workers: number
  /** @param turn Rises by one with each slice. */
  contend(endMs: number, turn: number): Promise<readonly Section[]>
  close(): Promise<void>
}

/** Sixteen contenders in this process; the reference: one. */
export async function contendersEntry(
  contestant: Contestant,
  sliceMs: number,
  bed: RedisBed,
): Promise<Entry> {
  const locker = await contestant.connect(bed.port)
  const workers = isReference(contestant) ? 1 : CONTENDERS
  return arenaEntry(contestant, sliceMs, bed, {
    workers,
    contend: (endMs, turn) => contend(locker, { workers, firstWorker: 0, endMs, turn }),
    close: () => locker.close(),
  })
}

export function isReference({ who, hasToken }: Contestant): boolean {
  return who === 'hand-written' && hasToken
}

/**
 * Learns what the contestant sends, and measures it. Closes the arena when that fails.
 *
 * @param sliceMs How long contenders come anew; each ends the section that it waits for.
 */
export async function arenaEntry(
  contestant: Contestant,
  sliceMs: number,
  { look }: RedisBed,
  arena: Arena,
): Promise<Entry> {
  const slice = slicesOf(arena)
  try {
    await look.forgetKeys()
    const learnMs = learnMsOf(arena)
    // Twice, because the first time scripts are loaded, which is not what is asked about.
    await slice(learnMs)
    const requests = await look.learnRequests(async () => {
      await slice(learnMs)
    })
    const { who, variant, client, isOwnerChecked } = contestant
    return {
      ...{ who, variant, client, isOwnerChecked },
      comparedWith: client,
      isReference: isReference(contestant),
      inFlight: arena.workers,
      slice: async () => {
        const { result, served } = await look.served(requests, () => slice(sliceMs))
        return { ...result, ...served }
      },
      close: () => arena.close(),
    }
  } catch (error) {
    await arena.close()
    throw error
  }
}

/** @returns what lets a crowd loose for so many milliseconds, and checks it. */
export function slicesOf(arena: Arena): (lengthMs: number) => Promise<Sample> {
  let turn = 0
  return async (lengthMs) => {
    const beganAtMs = machineMs()
    const endMs = beganAtMs + lengthMs
    const sections = await arena.contend(endMs, turn++)
    return sampleOf(sections, arena.workers, beganAtMs, endMs)
  }
}

/** Long enough for every contender to have had its turn. */
export function learnMsOf({ workers }: Arena): number {
  return LEARN_ROUNDS * workers * SECTION_MS
}
