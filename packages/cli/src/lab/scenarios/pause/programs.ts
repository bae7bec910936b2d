/** What A and B do in every arm of `pause`. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Lease } from 'holdfast'
import type { Outcome } from '../../history.ts'
import type { Arm, Round } from '../../scenario.ts'
import { unanswered } from '../answers.ts'
import type { PauseStores } from './stores.ts'
import type { LockedWork, UpdateAnswer, Work } from './updates.ts'

interface ArmSpec {
  readonly name: string
  readonly protected: boolean
  readonly claim: string
}

/**
 * Each refusal is followed by a new lock with a larger token, so one more try is the rule. A lease
 * of 300 ms is lost several times in a row only where the machine is far too busy; that the round
 * is then late is judged elsewhere.
 */
const TRIES_MAX = 25
/** B gets the lock when A's TTL is over; A, when B has released. Both take well below a second. */
const WAIT_MS = 10_000
/**
 * B asks this much before A's TTL is over, is told how much is left, and asks again then. Who asks
 * sooner has a larger spread of its next try, and less time in which to be done before A wakes.
 */
const BEFORE_TTL_ENDS_MS = 50
/** Without a lock nothing tells B when to begin: as long after A as it takes where there is one. */
const WITHOUT_LOCK_MS = 50

/** An arm in which nobody asks for a lock. */
export function armWithoutLock(
  spec: ArmSpec,
  update: (work: Work) => Promise<UpdateAnswer>,
): Arm<PauseStores> {
  return {
    ...spec,
    run: (round, stores) =>
      workUntilDone(round, async (tryNumber, think) => {
        if (round.role !== round.fault.role) {
          await sleep(BEFORE_TTL_ENDS_MS + WITHOUT_LOCK_MS)
        }
        return update({ round, stores, tryNumber, think })
      }),
  }
}

/** An arm in which every try is made under a lock. */
export function armWithLock(
  spec: ArmSpec,
  update: (work: LockedWork) => Promise<UpdateAnswer>,
): Arm<PauseStores> {
  return {
    ...spec,
    run: (round, stores) =>
      workUntilDone(round, async (tryNumber, think) => {
        const lease = await acquire(round, stores, tryNumber)
        if (lease === null) return 'unanswered'
        const answer = await update({ round, stores, lease, tryNumber, think })
        await round.call('release', async () => ({
          answer: await lease.release().catch(unanswered),
          tryNumber,
        }))
        return answer
      }),
  }
}

/** B begins shortly before A's TTL is over. A pauses once; who is refused does its work again. */
async function workUntilDone(
  round: Round,
  tryOnce: (tryNumber: number, think: () => Promise<void>) => Promise<UpdateAnswer>,
): Promise<void> {
  const isPausing = round.role === round.fault.role
  if (!isPausing) {
    await round.until(`${round.fault.role}:pausing`)
    await sleep(round.fault.ttlMs - BEFORE_TTL_ENDS_MS + round.jitterMs)
  }
  let hasPaused = false
  const think = async (): Promise<void> => {
    if (!isPausing || hasPaused) return
    hasPaused = true
    await round.pause()
  }
  for (let tryNumber = 1; tryNumber <= TRIES_MAX; tryNumber++) {
    if ((await tryOnce(tryNumber, think)) === 'applied') return
  }
  throw new Error(`${round.role} was refused ${TRIES_MAX} times in a row`)
}

/** Null when Redis did not answer in time, which on a busy machine says nothing about locks. */
async function acquire(
  round: Round,
  stores: PauseStores,
  tryNumber: number,
): Promise<Lease | null> {
  const { ttlMs } = round.fault
  const { lease } = await round.call<Outcome & { lease: Lease | null }>('acquire', async () => {
    try {
      const options = { ttlMs, waitMs: WAIT_MS, renew: false }
      const lease = await stores.locks.acquire(round.place, options)
      const token = `${lease.fencingToken}`
      return { answer: 'granted', token, owner: lease.owner, tryNumber, lease }
    } catch (error) {
      return { answer: unanswered(error), tryNumber, lease: null }
    }
  })
  return lease
}
