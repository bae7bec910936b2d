/**
 * A pod of the campaign: gives out one prize after another until it reads that none is left.
 *
 * A pod that pauses stands for one that looked at its lease before the pause: when it wakes it goes
 * on to write, so that only the store can refuse. With lock and guard it claims before it reads, as
 * the guard asks for.
 */
import type { Fenced, Lease } from 'holdfast'
import { pauseKind } from '../../faults/index.ts'
import type { Addresses } from '../../scenario.ts'
import { monotonicUs } from '../../time.ts'
import type { Job, Program } from '../../trial.ts'
import { unanswered } from '../answers.ts'
import type { Queryable } from '../ground/database.ts'
import type { Ground, WalletStores } from '../ground/ground.ts'
import { answerOf } from '../wallet/updates.ts'
import { enterWinner, remainingIn } from './book.ts'

export interface PodInput {
  readonly campaign: string
  readonly addresses: Addresses
  readonly prizes: number
  /** In which of its tries it pauses. */
  readonly pauseAt: readonly number[]
}

export const TTL_MS = 500
export const PAUSE_MS = 800
/** The next one gets the lock within milliseconds, or within a TTL where its holder pauses. */
const WAIT_MS = 60_000
/** Of one pod, for each prize of the campaign: without a lock a pod gives out far more than its share. */
const TRIES_PER_PRIZE = 3

/** `over`: it read that none is left. The others are those of a guarded write. */
type Answer = Awaited<ReturnType<typeof answerOf>> | 'over'

/** One try to give out one prize. */
interface Try {
  readonly job: Job
  readonly stores: WalletStores
  readonly input: PodInput
  readonly section: number
}

export function givePrizesOn(ground: Ground): Program {
  return (job) => givePrizes(job, ground)
}

async function givePrizes(job: Job, ground: Ground): Promise<void> {
  const input = job.input as PodInput
  const stores = await ground.openWallets(input.addresses, job.role)
  const once = job.arm === 'no lock' ? withoutLock : underLock
  try {
    await job.mark('ready')
    await job.until('begin')
    for (let section = 1; section <= input.prizes * TRIES_PER_PRIZE; section++) {
      if ((await once({ job, stores, input, section })) === 'over') return
    }
    throw new Error(`${job.role} comes to no end`)
  } finally {
    await stores.close()
  }
}

function withoutLock(one: Try): Promise<Answer> {
  return readThenWrite(one, null, (act) => act(one.stores.db).then(() => 'applied' as const))
}

async function underLock(one: Try): Promise<Answer> {
  const { job, stores, input, section } = one
  const lease = await acquire(one)
  if (lease === null) {
    job.note('give', monotonicUs(), { answer: 'unanswered', tryNumber: section })
    return 'unanswered'
  }
  const { lockName, fencingToken, owner, source } = lease
  const bare: Fenced = { lockName, fencingToken, owner, source }
  try {
    return await readThenWrite(one, `${fencingToken}`, (act) =>
      job.arm === 'lock + guard'
        ? answerOf(() => stores.guard.transaction(bare, act))
        : act(stores.db).then(() => 'applied' as const),
    )
  } finally {
    await lease.release().catch(unanswered)
  }

  async function acquire({ stores: { locks } }: Try): Promise<Lease | null> {
    try {
      return await locks.acquire(input.campaign, { ttlMs: TTL_MS, waitMs: WAIT_MS })
    } catch (error) {
      unanswered(error)
      return null
    }
  }
}

/** @param step How one access to the book is made: bare, or in a guarded transaction. */
async function readThenWrite(
  { job, stores, input, section }: Try,
  token: string | null,
  step: (act: (db: Queryable) => Promise<void>) => Promise<Exclude<Answer, 'over'>>,
): Promise<Answer> {
  const { campaign } = input
  const facts = { ...(token !== null && { token }), tryNumber: section }
  const calledAtUs = monotonicUs()
  let basis = 0
  const read = await step(async (db) => {
    basis = await remainingIn(db, campaign)
  })
  if (read !== 'applied' || basis <= 0) {
    const answer = read === 'applied' ? 'over' : read
    job.note('give', calledAtUs, { answer, basis, ...facts })
    return answer
  }
  if (input.pauseAt.includes(section)) await pause(job)
  const winner = { pod: job.role, section, basis, token }
  const answer = await step((db) => enterWinner(db, stores.db.dialect, campaign, winner))
  job.note('give', calledAtUs, { answer, basis, value: basis - 1, ...facts })
  return answer
}

/** The whole process stands still: nothing in it can tell it that its lock has run out. */
async function pause(job: Job): Promise<void> {
  await job.call('pause', async () => {
    await pauseKind('block').pause(PAUSE_MS, Promise.resolve())
    return { answer: 'over' }
  })
}
