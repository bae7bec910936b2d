/** How A and B of the scenarios with wallets get to their updates: lock, try, and try again. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Lease } from 'holdfast'
import type { Outcome } from '../../history.ts'
import type { Arm, Round } from '../../scenario.ts'
import { unanswered } from '../answers.ts'
import type { LockedWork, UpdateAnswer, Work } from './updates.ts'

export type ArmSpec = Omit<Arm, 'run'>

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
export const BEFORE_TTL_ENDS_MS = 50

/** B waits until A pauses, and begins shortly before A's TTL is over. */
export async function beginAfterPause(round: Round): Promise<void> {
  if (round.role === round.fault.role) return
  await round.until(`${round.fault.role}:pausing`)
  await sleep(round.fault.ttlMs - BEFORE_TTL_ENDS_MS + round.jitterMs)
}

/** A pauses when it thinks for the first time, and only then. */
export function pausesOnce(round: Round): () => Promise<void> {
  let hasPaused = false
  return async () => {
    if (round.role !== round.fault.role || hasPaused) return
    hasPaused = true
    await round.pause()
  }
}

/** Who is refused does its work again. */
export async function workUntilDone(
  round: Round,
  tryOnce: (tryNumber: number) => Promise<UpdateAnswer>,
): Promise<void> {
  for (let tryNumber = 1; tryNumber <= TRIES_MAX; tryNumber++) {
    if ((await tryOnce(tryNumber)) === 'applied') return
  }
  throw new Error(`${round.role} was refused ${TRIES_MAX} times in a row`)
}

/** One try under a lock that has the wallet's name. */
export async function updateUnderLock(
  work: Work,
  ttlMs: number,
  update: (work: LockedWork) => Promise<UpdateAnswer>,
): Promise<UpdateAnswer> {
  const { round, tryNumber } = work
  const lease = await acquire(work, ttlMs)
  if (lease === null) return 'unanswered'
  const answer = await update({ ...work, lease })
  await round.call('release', async () => ({
    answer: await lease.release().catch(unanswered),
    tryNumber,
  }))
  return answer
}

/** Null when Redis did not answer in time, which on a busy machine says nothing about locks. */
async function acquire(work: Work, ttlMs: number): Promise<Lease | null> {
  const { round, stores, wallet, tryNumber } = work
  const { lease } = await round.call<Outcome & { lease: Lease | null }>('acquire', async () => {
    try {
      const options = { ttlMs, waitMs: WAIT_MS, renew: false }
      const lease = await stores.locks.acquire(wallet, options)
      const token = `${lease.fencingToken}`
      return { answer: 'granted', token, owner: lease.owner, tryNumber, lease }
    } catch (error) {
      return { answer: unanswered(error), tryNumber, lease: null }
    }
  })
  return lease
}
