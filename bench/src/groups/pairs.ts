/** Acquire and release, each worker on a name of its own: nobody ever waits. */
import type { Contestant, Locker } from '../contestant.ts'
import type { Entry, Sample } from '../measure.ts'
import type { ServerLook } from '../server-look.ts'
import { isReference } from './contenders.ts'
import type { RedisBed } from './redis-bed.ts'

/** Of one slice. Short enough that all contestants meet the same moods of the machine. */
const PAIRS = { alone: 200, together: 512 } as const

/** @throws when it cannot connect, or does not lock. */
export async function pairsEntry(
  contestant: Contestant,
  inFlight: number,
  bed: RedisBed,
): Promise<Entry> {
  const locker = await contestant.connect(bed.port)
  const pairs = inFlight === 1 ? PAIRS.alone : PAIRS.together
  let requests: ReadonlySet<string>
  try {
    await checkThatItLocks(locker, bed.look)
    await pairsSlice(locker, inFlight, pairs)
    requests = await bed.look.learnRequests(async () => {
      await pairsSlice(locker, 1, 1)
    })
  } catch (error) {
    await locker.close()
    throw error
  }
  const { who, variant, client, isOwnerChecked } = contestant
  return {
    ...{ who, variant, client, isOwnerChecked, inFlight },
    comparedWith: client,
    isReference: isReference(contestant),
    slice: async () => {
      const one = () => pairsSlice(locker, inFlight, pairs)
      const { result, served } = await bed.look.served(requests, one)
      const left = await bed.look.keysWithTtl()
      if (left > 0) throw new Error(`${left} locks stand although all were released`)
      return { ...result, ...served }
    },
    close: () => locker.close(),
  }
}

/** What is measured must be a lock: a key with a TTL while it is held, and none after. */
async function checkThatItLocks(locker: Locker, look: ServerLook): Promise<void> {
  await look.forgetKeys()
  const release = await locker.acquire('bench:check')
  const held = await look.keysWithTtl()
  await release()
  const left = await look.keysWithTtl()
  if (held !== 1 || left !== 0) {
    throw new Error(`keys with a TTL: ${held} while it was held, ${left} after; 1 and 0 are right`)
  }
}

export async function pairsSlice(locker: Locker, inFlight: number, pairs: number): Promise<Sample> {
  const latenciesMs: number[] = []
  const each = Math.floor(pairs / inFlight)
  const work = async (lockName: string): Promise<void> => {
    for (let done = 0; done < each; done++) {
      const beganAtMs = performance.now()
      const release = await locker.acquire(lockName)
      await release()
      latenciesMs.push(performance.now() - beganAtMs)
    }
  }
  const usedBefore = process.cpuUsage()
  const beganAtMs = performance.now()
  await Promise.all(Array.from({ length: inFlight }, (_, worker) => work(`bench:${worker}`)))
  const elapsedMs = performance.now() - beganAtMs
  const { user, system } = process.cpuUsage(usedBefore)
  return { count: latenciesMs.length, elapsedMs, latenciesMs, clientUs: user + system }
}
