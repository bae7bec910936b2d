/**
 * Who holds locks while the store fails: once with Holdfast, and once as a program writes it by
 * hand, whose timer renews and believes that no error is good news. Each lock has a client of its
 * own, so that what passes on a connection belongs to one lock.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { createLocks } from 'holdfast'
import { redisBackend } from 'holdfast/redis'
import { monotonicUs } from '../../time.ts'
import type { Job } from '../../trial.ts'
import { type ClientName, openClient, openIoredis } from './clients.ts'
import { Pulse } from './pulse.ts'
import { GAP_MS_MAX } from './times.ts'

export interface HolderInput {
  readonly port: number
  readonly client: ClientName
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
interface Holding {
  readonly lock: HeldLock
  readonly whenTold: Promise<{ readonly atUs: number; readonly how: string }>
  release(): Promise<string>
  close(): void
}

/** Holds until the lab says that it is over; writes down when it was told. */
export function hold(job: Job): Promise<number> {
  return holdWhile(job, holdWithLease, () => job.until('over'))
}

export function holdByHand(job: Job): Promise<number> {
  return holdWhile(job, holdWithTimer, () => job.until('over'))
}

/** A job of ten TTLs; then everything is given back. */
export function holdForLong(job: Job): Promise<number> {
  return holdWhile(job, holdWithLease, async (holdings) => {
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
  acquire: (job: Job, lock: HeldLock) => Promise<Holding>,
  work: (holdings: readonly Holding[]) => Promise<void>,
): Promise<number> {
  const { locks } = job.input as HolderInput
  const pulse = new Pulse()
  const untold = new Set(locks)
  let running = 0
  const note = (op: string, atUs: number, lock: HeldLock, answer: string): void => {
    const gapMs = pulse.longestGapMs()
    if (gapMs <= GAP_MS_MAX) running++
    job.note(op, atUs, { answer, value: gapMs }, lock.round)
  }
  const holdings = await Promise.all(locks.map((lock) => acquire(job, lock)))
  for (const { lock, whenTold } of holdings) {
    void whenTold.then(({ atUs, how }) => {
      if (untold.delete(lock)) note('told', atUs, lock, how)
    })
  }
  pulse.restart()
  await job.mark('holding')
  await work(holdings)
  const atUs = monotonicUs()
  for (const lock of untold) note('not-told', atUs, lock, 'silence')
  untold.clear()
  pulse.stop()
  for (const { close } of holdings) close()
  return running
}

async function holdWithLease(job: Job, lock: HeldLock): Promise<Holding> {
  const { port, client: name, ttlMs } = job.input as HolderInput
  const { client, close } = await openClient(name, port)
  await sleep(lock.delayMs)
  const calledAtUs = monotonicUs()
  const lease = await createLocks(redisBackend(client)).acquire(lock.name, { ttlMs })
  const { owner, fencingToken, signal } = lease
  const detail = name
  job.note(
    'acquire',
    calledAtUs,
    { answer: 'granted', owner, token: `${fencingToken}`, detail },
    lock.round,
  )
  const whenTold = new Promise<{ atUs: number; how: string }>((resolve) => {
    const hear = (): void => resolve({ atUs: monotonicUs(), how: String(signal.reason) })
    signal.addEventListener('abort', hear, { once: true })
  })
  return { lock, whenTold, release: () => lease.release(), close }
}

/** SET NX PX, and a timer that renews every third of the TTL and listens for errors. */
async function holdWithTimer(job: Job, lock: HeldLock): Promise<Holding> {
  const { port, ttlMs } = job.input as HolderInput
  const redis = openIoredis(port)
  await redis.ping()
  await sleep(lock.delayMs)
  const calledAtUs = monotonicUs()
  const key = `lock:${lock.name}`
  const owner = `by-hand:${lock.name}`
  const reply = await redis.set(key, owner, 'PX', ttlMs, 'NX')
  if (reply !== 'OK') throw new Error(`${key} is taken`)
  job.note('acquire', calledAtUs, { answer: 'granted', owner, detail: 'ioredis' }, lock.round)
  let timer: NodeJS.Timeout | undefined
  const whenTold = new Promise<{ atUs: number; how: string }>((resolve) => {
    const tell = (how: string): void => resolve({ atUs: monotonicUs(), how })
    timer = setInterval(() => {
      redis.pexpire(key, ttlMs).then(
        (count) => count === 1 || tell('the key is gone'),
        (error: unknown) => tell(String(error)),
      )
    }, ttlMs / 3)
  })
  const close = (): void => {
    clearInterval(timer)
    redis.disconnect()
  }
  return { lock, whenTold, release: async () => `${await redis.del(key)}`, close }
}
