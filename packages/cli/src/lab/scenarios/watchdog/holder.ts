/**
 * Who holds locks while the store fails: once with Holdfast, and once as a program writes it by
 * hand, whose timer renews and believes that no error is good news. Each lock has a client of its
 * own, so that what passes on a connection belongs to one lock.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { createLocks, type Locks } from 'holdfast'
import { redisBackend } from 'holdfast/redis'
import { monotonicUs } from '../../time.ts'
import type { Job, Program } from '../../trial.ts'
import { type ClientName, openClient, openIoredis } from './clients.ts'
import { Pulse } from './pulse.ts'
import { GAP_MS_MAX } from './times.ts'

/** @typeParam Store What it has to know to reach its store. */
export type HolderInput<Store = { readonly port: number }> = Store & {
  /** What it holds with. */
  readonly client: string
  readonly ttlMs: number
  readonly locks: readonly HeldLock[]
}

export interface HeldLock {
  readonly round: number
  readonly name: string
  /** Begins so much later, so that a fault meets each one at another moment of its renewals. */
  readonly delayMs: number
}

/** Ends what it opened; `whenTold` resolves when the holder knows. */
export interface Holding {
  readonly lock: HeldLock
  /** When it was granted: what happened before is nothing to its watchdog. */
  readonly sinceUs: number
  readonly whenTold: Promise<{ readonly atUs: number; readonly how: string }>
  release(): Promise<string>
  close(): void
}

type Acquire = (job: Job, lock: HeldLock) => Promise<Holding>

export type Holders = Readonly<Record<'hold' | 'holdByHand' | 'holdForLong', Program>>

/** The programs of the holders, by the two ways to hold a lock of one kind of store. */
export function holderPrograms(withLease: Acquire, withTimer: Acquire): Holders {
  return {
    ...leasePrograms(withLease),
    holdByHand: (job) => holdWhile(job, withTimer, () => job.until('over')),
  }
}

export function leasePrograms(withLease: Acquire): Omit<Holders, 'holdByHand'> {
  return {
    // Until the lab says that it is over; it writes down when it was told.
    hold: (job) => holdWhile(job, withLease, () => job.until('over')),
    holdForLong: (job) => holdForLong(job, withLease),
  }
}

/** A job of ten TTLs; then everything is given back. */
function holdForLong(job: Job, withLease: Acquire): Promise<number> {
  return holdWhile(job, withLease, async (holdings) => {
    await job.until('job-over')
    for (const { lock, release } of holdings) {
      const calledAtUs = monotonicUs()
      job.note('release', calledAtUs, { answer: await release() }, lock.round)
    }
  })
}

/** @returns of how many locks the holder was running all the time. */
async function holdWhile(
  job: Job,
  acquire: Acquire,
  work: (holdings: readonly Holding[]) => Promise<void>,
): Promise<number> {
  const { locks } = job.input as HolderInput
  const pulse = new Pulse()
  const untold = new Set<Holding>()
  let running = 0
  const note = (op: string, atUs: number, { lock, sinceUs }: Holding, answer: string): void => {
    const gapMs = pulse.longestGapMsSince(sinceUs)
    if (gapMs <= GAP_MS_MAX) running++
    job.note(op, atUs, { answer, value: gapMs }, lock.round)
  }
  const holdings = await Promise.all(locks.map((lock) => acquire(job, lock)))
  for (const holding of holdings) {
    untold.add(holding)
    void holding.whenTold.then(({ atUs, how }) => {
      if (untold.delete(holding)) note('told', atUs, holding, how)
    })
  }
  await job.mark('holding')
  await work(holdings)
  const atUs = monotonicUs()
  for (const holding of untold) note('not-told', atUs, holding, 'silence')
  untold.clear()
  pulse.stop()
  for (const { close } of holdings) close()
  return running
}

export const redisHolders: Holders = holderPrograms(holdWithClient, holdByHand)

async function holdWithClient(job: Job, lock: HeldLock): Promise<Holding> {
  const { port, client: name } = job.input as HolderInput
  const { client, close } = await openClient(name as ClientName, port)
  return holdWithLease(job, lock, createLocks(redisBackend(client)), close)
}

export async function holdWithLease(
  job: Job,
  lock: HeldLock,
  locks: Locks,
  close: () => void,
): Promise<Holding> {
  const { client: detail, ttlMs } = job.input as HolderInput<object>
  await sleep(lock.delayMs)
  const calledAtUs = monotonicUs()
  const lease = await locks.acquire(lock.name, { ttlMs })
  const { owner, fencingToken, signal } = lease
  const outcome = { answer: 'granted', owner, token: `${fencingToken}`, detail }
  job.note('acquire', calledAtUs, outcome, lock.round)
  const sinceUs = monotonicUs()
  const whenTold = new Promise<{ atUs: number; how: string }>((resolve) => {
    const hear = (): void => resolve({ atUs: monotonicUs(), how: String(signal.reason) })
    signal.addEventListener('abort', hear, { once: true })
  })
  return { lock, sinceUs, whenTold, release: () => lease.release(), close }
}

/** SET NX PX and PEXPIRE, bare as they are. */
async function holdByHand(job: Job, lock: HeldLock): Promise<Holding> {
  const { port, ttlMs } = job.input as HolderInput
  const redis = openIoredis(port)
  await redis.ping()
  const key = `lock:${lock.name}`
  return holdWithTimer(job, lock, {
    take: async (owner) => (await redis.set(key, owner, 'PX', ttlMs, 'NX')) === 'OK',
    renew: async () => (await redis.pexpire(key, ttlMs)) === 1,
    remove: async () => (await redis.del(key)) === 1,
    close: () => redis.disconnect(),
  })
}

/** What somebody makes a lock of; each answers whether there was what it was for. */
export interface BareLock {
  take(owner: string): Promise<boolean>
  renew(): Promise<boolean>
  remove(): Promise<boolean>
  close(): void
}

/** A timer that renews every third of the TTL and listens for errors. */
export async function holdWithTimer(job: Job, lock: HeldLock, bare: BareLock): Promise<Holding> {
  const { client: detail, ttlMs } = job.input as HolderInput<object>
  await sleep(lock.delayMs)
  const calledAtUs = monotonicUs()
  const owner = `by-hand:${lock.name}`
  if (!(await bare.take(owner))) throw new Error(`${lock.name} is taken`)
  job.note('acquire', calledAtUs, { answer: 'granted', owner, detail }, lock.round)
  const sinceUs = monotonicUs()
  let timer: NodeJS.Timeout | undefined
  const whenTold = new Promise<{ atUs: number; how: string }>((resolve) => {
    const tell = (how: string): void => resolve({ atUs: monotonicUs(), how })
    timer = setInterval(() => {
      bare.renew().then(
        (isThere) => isThere || tell('the entry is gone'),
        (error: unknown) => tell(String(error)),
      )
    }, ttlMs / 3)
  })
  const close = (): void => {
    clearInterval(timer)
    bare.close()
  }
  return { lock, sinceUs, whenTold, release: async () => `${await bare.remove()}`, close }
}
