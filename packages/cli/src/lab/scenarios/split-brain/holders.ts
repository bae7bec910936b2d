/**
 * Those on the two sides: who holds locks when the partition comes, and who asks for the same ones
 * beyond it. Half of the locks are held with ioredis, half with node-redis, with the options that
 * each has by default.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Lease } from 'holdfast'
import { monotonicUs } from '../../time.ts'
import type { Program } from '../../trial.ts'
import { warmUp } from '../quorum/ask-once.ts'
import { type Driver, openLocks } from '../quorum/locks.ts'
import type { Held } from '../wallet/write-held.ts'
import type { HeldLock } from '../watchdog/holder.ts'
import { Pulse } from '../watchdog/pulse.ts'

export interface SideInput {
  readonly ports: readonly number[]
  readonly driver: Driver
  readonly ttlMs: number
  readonly locks: readonly HeldLock[]
}

export interface HoldResult {
  readonly held: readonly Held[]
  /** The longest time in which this process was not served while it held. */
  readonly gapMs: number
}

/** On a machine with every core taken; nobody else contends before the partition. */
const WAIT_MS = 30_000

/** Holds until the lab says that it is over, and writes down when it was told. */
export const hold: Program = async (job): Promise<HoldResult> => {
  const { ports, driver, ttlMs, locks: wanted } = job.input as SideInput
  const { locks, close } = await openLocks(driver, ports, { onEmpty: 'fresh' })
  await warmUp(locks, `warm-up:${process.pid}`, ttlMs)
  const pulse = new Pulse()
  const untold = new Set<number>()
  const note = (op: string, round: number, answer: string): void => {
    job.note(op, monotonicUs(), { answer, value: pulse.longestGapMs() }, round)
  }
  const rounds = new Map(wanted.map(({ name, round }) => [name, round]))
  // What who is cut off sees before it is told.
  locks.on('renewal-failed', ({ lockName, error }) => {
    const round = rounds.get(lockName)
    const outcome = { answer: error.code, detail: error.message }
    if (round !== undefined) job.note('renewal-failed', monotonicUs(), outcome, round)
  })
  const held = await Promise.all(
    wanted.map(async ({ name, round, delayMs }) => {
      await sleep(delayMs)
      const calledAtUs = monotonicUs()
      const lease = await locks.acquire(name, { ttlMs, waitMs: WAIT_MS })
      job.note('acquire', calledAtUs, grantOf(lease), round)
      untold.add(round)
      const hear = (): void => {
        if (untold.delete(round)) note('told', round, String(lease.signal.reason))
      }
      lease.signal.addEventListener('abort', hear, { once: true })
      return heldOf(lease)
    }),
  )
  pulse.restart()
  await job.mark('holding')
  await job.until('over')
  for (const round of untold) note('not-told', round, 'silence')
  untold.clear()
  const gapMs = pulse.longestGapMs()
  pulse.stop()
  close()
  return { held, gapMs }
}

/** Asks for all of them at once, and waits until each is granted. */
export const take: Program = async (job): Promise<readonly Held[]> => {
  const { ports, driver, ttlMs, locks: wanted } = job.input as SideInput
  const { locks, close } = await openLocks(driver, ports, { onEmpty: 'fresh' })
  // A replica cannot be asked for a lock before it is promoted.
  if (ports.length > 1) await warmUp(locks, `warm-up:${process.pid}`, ttlMs)
  await job.mark('ready')
  await job.until('ask')
  const held = await Promise.all(
    wanted.map(async ({ name, round }) => {
      const calledAtUs = monotonicUs()
      const lease = await locks.acquire(name, { ttlMs, waitMs: WAIT_MS, renew: false })
      job.note('acquire', calledAtUs, grantOf(lease), round)
      return heldOf(lease)
    }),
  )
  close()
  return held
}

function grantOf({ owner, fencingToken }: Lease): { answer: string; owner: string; token: string } {
  return { answer: 'granted', owner, token: `${fencingToken}` }
}

function heldOf({ lockName, owner, source, fencingToken }: Lease): Held {
  return { lockName, owner, source, token: `${fencingToken}` }
}
