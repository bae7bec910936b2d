/**
 * Who holds and who comes next. A holder takes a lock, reads, stands still for as long as it is told, and
 * writes: it stands for one that had looked at its lease just before, so it presents nothing but its token.
 * One process, the successor, waits for all locks, and does the same without a pause.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Lease, Locks } from 'holdfast'
import { pauseKind } from '../../faults/index.ts'
import type { Outcome } from '../../history.ts'
import type { Addresses } from '../../scenario.ts'
import { monotonicUs } from '../../time.ts'
import type { Job, Program } from '../../trial.ts'
import { unanswered } from '../answers.ts'
import { openKeeper, type Reach } from '../failover/stores.ts'
import type { Ground, WalletStores } from '../ground/ground.ts'
import { warmUp } from '../ground/warm-up.ts'
import { plainUpdate, type Scribe, tokenUpdate, type Work } from '../wallet/updates.ts'

/** A lock, and the row of the same name. */
export interface Contended {
  readonly round: number
  readonly name: string
}

export interface PlayerInput {
  readonly addresses: Addresses
  /** How who keeps the locks is reached. */
  readonly reach: Reach
  readonly ttlMs: number
  /** Nobody looks at tokens. */
  readonly isBare: boolean
}

export interface PauseInput extends PlayerInput {
  readonly name: string
  /** From the grant to the work, so that the pause begins at any moment between two renewals. */
  readonly delayMs: number
  readonly pauseMs: number
}

export interface HoldInput extends PlayerInput {
  readonly held: readonly (Contended & { readonly delayMs: number })[]
}

export interface FollowInput extends PlayerInput {
  readonly all: readonly Contended[]
}

/** On a busy machine a lock of 300 ms may be over before its grant is answered. */
const TRIES_MAX = 25
const LISTEN_MS = 5

export const pauseOnceOn = (ground: Ground): Program => {
  return async (job) => {
    const input = job.input as PauseInput
    const { name, delayMs, pauseMs } = input
    await withStores(ground, job, input, async (stores) => {
      const scribe = scribeOf(job, job.round)
      const lease = await acquire(scribe, stores.locks, name, input.ttlMs)
      await job.mark('holds')
      await sleep(delayMs)
      await update(scribe, stores, lease, input.isBare, () =>
        scribe.call('pause', async () => {
          await pauseKind('block').pause(pauseMs, Promise.resolve())
          return { answer: 'over', value: pauseMs }
        }),
      )
      await release(scribe, lease)
    })
  }
}

/** Holds until it is killed. */
export const holdOn = (ground: Ground): Program => {
  return async (job) => {
    const input = job.input as HoldInput
    await withStores(ground, job, input, async ({ locks }) => {
      await Promise.all(
        input.held.map(async ({ round, name, delayMs }) => {
          await sleep(delayMs)
          await acquire(scribeOf(job, round), locks, name, input.ttlMs)
        }),
      )
      await job.mark('holding')
      await new Promise(() => {})
    })
  }
}

/** Asks for each lock when the lab says so, and works under it once. */
export const followOn = (ground: Ground): Program => {
  return async (job) => {
    const input = job.input as FollowInput
    await withStores(ground, job, input, async (stores) => {
      const untold = new Set(input.all)
      const failures: unknown[] = []
      const work: Promise<unknown>[] = []
      while (untold.size > 0) {
        for (const one of untold) {
          if (!job.hasReached(`ask ${one.round}`)) continue
          untold.delete(one)
          const done = workOnce(job, input, stores, one)
          work.push(done.catch((error: unknown) => failures.push(error)))
        }
        if (failures.length > 0) throw failures[0]
        await sleep(LISTEN_MS)
      }
      await Promise.all(work)
      if (failures.length > 0) throw failures[0]
    })
  }
}

async function workOnce(
  job: Job,
  { ttlMs, isBare }: PlayerInput,
  stores: WalletStores,
  { round, name }: Contended,
): Promise<void> {
  const scribe = scribeOf(job, round)
  await job.mark(`asks ${round}`)
  const lease = await acquire(scribe, stores.locks, name, ttlMs)
  await update(scribe, stores, lease, isBare, async () => {})
  await release(scribe, lease)
}

async function withStores(
  ground: Ground,
  job: Job,
  { addresses, reach }: PlayerInput,
  act: (stores: WalletStores) => Promise<void>,
): Promise<void> {
  const data = await ground.openData(addresses, job.role)
  const { locks, close } = await openKeeper(reach, addresses, job.role)
  try {
    await warmUp(locks, data.guard)
    await act({ ...data, locks })
  } finally {
    await locks.close()
    close()
    await data.close()
  }
}

/** In a job that does the work of many rounds, each is written down as its own. */
function scribeOf(job: Job, round: number): Scribe {
  const note = (op: string, calledAtUs: number, outcome: Outcome): void =>
    job.note(op, calledAtUs, outcome, round)
  return {
    role: job.role,
    note,
    call: async (op, act) => {
      const calledAtUs = monotonicUs()
      try {
        const outcome = await act()
        note(op, calledAtUs, outcome)
        return outcome
      } catch (error) {
        note(op, calledAtUs, { answer: 'failed', detail: String(error) })
        throw error
      }
    },
  }
}

async function acquire(scribe: Scribe, locks: Locks, name: string, ttlMs: number): Promise<Lease> {
  for (let tries = 1; tries <= TRIES_MAX; tries++) {
    const { lease } = await scribe.call<Outcome & { lease: Lease | null }>('acquire', async () => {
      try {
        const lease = await locks.acquire(name, { ttlMs, waitMs: Number.POSITIVE_INFINITY })
        const { owner, fencingToken } = lease
        // How long it may believe in it: of etcd the checker knows nothing else, because sessions are shared.
        const value = Math.floor(lease.remainingMs())
        return { answer: 'granted', token: `${fencingToken}`, owner, value, lease }
      } catch (error) {
        return { answer: unanswered(error), lease: null }
      }
    })
    if (lease !== null) return lease
  }
  throw new Error(`${scribe.role} had no answer ${TRIES_MAX} times in a row`)
}

async function update(
  round: Scribe,
  stores: WalletStores,
  lease: Lease,
  isBare: boolean,
  think: () => Promise<unknown>,
): Promise<void> {
  const work: Work<Scribe> = {
    ...{ round, stores, wallet: lease.lockName, change: 1, tryNumber: 1 },
    think: async () => void (await think()),
  }
  await (isBare ? plainUpdate(work) : tokenUpdate({ ...work, lease }))
}

async function release(scribe: Scribe, lease: Lease): Promise<void> {
  await scribe.call('release', async () => ({ answer: await lease.release().catch(unanswered) }))
}
