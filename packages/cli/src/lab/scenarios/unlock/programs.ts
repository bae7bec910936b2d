/**
 * What A, B and C do in both arms of `unlock`: A acquires and pauses, B acquires when A's TTL is
 * over, A wakes and cleans up, C asks. B and C release when the lab has looked at the key.
 */
import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Lease } from 'holdfast'
import type { Outcome } from '../../history.ts'
import type { Arm, Round } from '../../scenario.ts'
import { unanswered } from '../answers.ts'
import type { LockStores } from '../ground/ground.ts'
import { HOLD_MS } from '../hold.ts'
import { nameIn } from './names.ts'

/** B asks this much before A's TTL is over, and gets the lock when it is. */
const BEFORE_TTL_ENDS_MS = 50
const WAIT_MS = 5_000
const POLL_MS = 5

/** Both arms do the same, with other means. */
interface Means {
  /** Asks until `waitMs` are over; null when it was not granted. */
  acquire(round: Round, stores: LockStores, ttlMs: number, waitMs: number): Promise<Held | null>
}

interface Held {
  readonly owner: string
  readonly token?: string
  /** Gives it back, in the way of the arm. The answer is the store's word. */
  release(): Promise<string>
}

/** SET NX PX and DEL by hand: whose the key is, nobody asks. */
const bareMeans: Means = {
  acquire: async (round, { byHand }, ttlMs, waitMs) => {
    const owner = randomUUID()
    const name = nameIn(round)
    const giveUpAtMs = performance.now() + waitMs
    while (!(await byHand.take(name, owner, ttlMs))) {
      if (performance.now() >= giveUpAtMs) return null
      await sleep(POLL_MS)
    }
    const release = async (): Promise<string> =>
      (await byHand.remove(name)) ? 'deleted' : 'nothing-there'
    return { owner, release }
  },
}

/** Holdfast's locks, whose release removes the owner's own entry only. */
const ownerCheckedMeans: Means = {
  acquire: async (round, { locks }, ttlMs, waitMs) => {
    const options = { ttlMs, renew: false }
    const lease: Lease | null =
      waitMs === 0
        ? await locks.tryAcquire(nameIn(round), options)
        : await locks.acquire(nameIn(round), { ...options, waitMs })
    if (lease === null) return null
    return {
      owner: lease.owner,
      token: `${lease.fencingToken}`,
      release: () => lease.release(),
    }
  },
}

export const bareDelete: Arm<LockStores> = {
  name: 'bare delete',
  protected: false,
  claim: 'A deletes B’s lock, C is granted it, and B and C hold it together',
  run: (round, stores) => run(round, stores, bareMeans),
}

export const ownerChecked: Arm<LockStores> = {
  name: 'owner-checked',
  protected: true,
  claim: 'A’s release leaves B’s lock alone, and C is refused',
  run: (round, stores) => run(round, stores, ownerCheckedMeans),
}

function run(round: Round, stores: LockStores, means: Means): Promise<void> {
  switch (round.role) {
    case 'A':
      return pauseAndCleanUp(round, stores, means)
    case 'B':
      return takeOver(round, stores, means)
    default:
      return ask(round, stores, means)
  }
}

async function pauseAndCleanUp(round: Round, stores: LockStores, means: Means): Promise<void> {
  const held = await acquire(round, stores, means, round.fault.ttlMs, WAIT_MS)
  await round.pause()
  if (held !== null) await release(round, held)
  round.mark('cleaned-up')
}

async function takeOver(round: Round, stores: LockStores, means: Means): Promise<void> {
  await round.until('A:pausing')
  await sleep(round.fault.ttlMs - BEFORE_TTL_ENDS_MS + round.jitterMs)
  const held = await acquire(round, stores, means, HOLD_MS, WAIT_MS)
  await round.until('lab:looked')
  if (held !== null) await release(round, held)
}

async function ask(round: Round, stores: LockStores, means: Means): Promise<void> {
  await round.until('A:cleaned-up')
  const held = await acquire(round, stores, means, HOLD_MS, 0)
  round.mark('asked')
  await round.until('lab:looked')
  if (held !== null) await release(round, held)
}

async function acquire(
  round: Round,
  stores: LockStores,
  means: Means,
  ttlMs: number,
  waitMs: number,
): Promise<Held | null> {
  const { held } = await round.call<Outcome & { held: Held | null }>('acquire', async () => {
    try {
      const held = await means.acquire(round, stores, ttlMs, waitMs)
      if (held === null) return { answer: 'refused', held }
      const { owner, token } = held
      return { answer: 'granted', owner, ...(token === undefined ? {} : { token }), held }
    } catch (error) {
      return { answer: unanswered(error), held: null }
    }
  })
  return held
}

async function release(round: Round, held: Held): Promise<void> {
  const { owner } = held
  await round.call('release', async () => ({
    answer: await held.release().catch(unanswered),
    owner,
  }))
}
