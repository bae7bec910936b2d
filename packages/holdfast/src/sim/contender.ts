/** The program that runs in each process: take a lock, read, work, write twice, give it back. */
import type { LockError, LockErrorCode } from '../core/errors.ts'
import type { Lease, Locks } from '../core/lease.ts'
import type { Data } from './data.ts'
import type { HeldRecord, History, WriteOutcome } from './history.ts'
import { ConnectionLostError, type Link } from './link.ts'
import type { Observer } from './observer.ts'
import type { Process } from './process.ts'
import type { Random } from './random.ts'
import type { Scenario } from './scenarios.ts'

const WAIT_MS_MAX = 2000
const REST_MS_MAX = 60
const WRITES = 2
/** So often a holder makes two calls at once at the end. */
const PAIR_SHARE = 0.3
/** Most meet at one name; the other one shares the store's counter. */
const FIRST_NAME_SHARE = 0.75

/** What a program must be ready for; anything else is a bug. */
const EXPECTED: ReadonlySet<LockErrorCode> = new Set<LockErrorCode>([
  'LOCK_HELD',
  'LEASE_LOST',
  'OUTCOME_UNKNOWN',
  'BACKEND_UNAVAILABLE',
  'GUARD_BUSY',
  'STALE_TOKEN',
])

/** Numbers the writes of a schedule. */
export type Counter = { last: number }

export interface Place {
  readonly process: Process
  readonly locks: Locks
  readonly data: Data
  readonly dataLink: Link
  readonly observer: Observer
  readonly history: History
  readonly random: Random
  readonly scenario: Scenario
  readonly writes: Counter
  readonly ttlMs: number
  /** True time, at which contenders begin nothing any more. */
  readonly stopAtMs: number
}

export async function contend(place: Place, lockNames: readonly [string, string]): Promise<void> {
  const { process, history, random } = place
  while (process.scheduler.nowMs < place.stopAtMs) {
    try {
      await hold(place, lockNames[random.chance(FIRST_NAME_SHARE) ? 0 : 1] as string)
    } catch (error) {
      const { code } = error as Partial<LockError>
      const isExpected = error instanceof ConnectionLostError || (code && EXPECTED.has(code))
      if (!isExpected) history.strangeErrors.push(String((error as Error)?.stack ?? error))
      process.note(() => `fails: ${String(error).slice(0, 100)}`)
    }
    await sleep(place, random.between(0, REST_MS_MAX))
  }
}

async function hold(place: Place, lockName: string): Promise<void> {
  const { locks, observer, process, random } = place
  // One in four renews by hand, and one in four only looks whether the name is free.
  const renew = place.scenario.renews && !random.chance(0.25)
  const lease = random.chance(0.25)
    ? await locks.tryAcquire(lockName, { renew })
    : await wait(place, lockName, renew)
  if (lease === null) return
  const record = observer.granted(process, lease)
  process.note(() => `holds ${lockName} with token ${lease.fencingToken}`)
  try {
    await work(place, lease, renew)
  } finally {
    process.note(() => `gives ${lockName} back`)
    const released = lease.release()
    end(observer, record, process)
    await released
  }
}

async function wait(place: Place, lockName: string, renew: boolean): Promise<Lease> {
  const { locks, observer, process, random } = place
  const waitMs = Math.round(random.between(100, WAIT_MS_MAX))
  const served = observer.waits(process, lockName)
  try {
    return await locks.acquire(lockName, { renew, waitMs })
  } finally {
    served()
  }
}

function end(observer: Observer, record: HeldRecord, process: Process): void {
  observer.released(record, process.scheduler.nowMs)
}

async function work(place: Place, lease: Lease, isRenewed: boolean): Promise<void> {
  const { data, dataLink, random, scenario, ttlMs, writes } = place
  let list = await recorded(place, lease, null, () => data.claim(dataLink, lease))
  if (!isRenewed) await lease.renew()
  for (let count = 0; count < WRITES; count++) {
    const share = random.next() * random.next()
    await sleep(place, share * scenario.workShare * ttlMs)
    lease.assertValid()
    writes.last += 1
    const id = writes.last
    list = [...list, id]
    const next = list
    // Without an answer it writes nothing more: what it would write rests on what it does not know.
    await recorded(place, lease, id, () => data.write(dataLink, lease, next))
  }
  if (random.chance(PAIR_SHARE)) await appendTwice(place, lease)
}

/** Two calls at once under one lease: whichever comes first, both count. */
async function appendTwice(place: Place, lease: Lease): Promise<void> {
  const { data, dataLink, writes } = place
  lease.assertValid()
  const both = [1, 2].map(() => {
    writes.last += 1
    const id = writes.last
    return recorded(place, lease, id, () => data.append(dataLink, lease, id))
  })
  const failed = (await Promise.allSettled(both)).find(({ status }) => status === 'rejected')
  if (failed?.status === 'rejected') throw failed.reason
}

async function recorded<T>(
  { history, process }: Place,
  { lockName, fencingToken }: Lease,
  id: number | null,
  ask: () => Promise<T>,
): Promise<T> {
  const note = (outcome: WriteOutcome): void => {
    const atMs = process.scheduler.nowMs
    history.writes.push({ id, lockName, token: fencingToken, atMs, outcome })
  }
  try {
    const answer = await ask()
    note('acknowledged')
    return answer
  } catch (error) {
    const { code } = error as Partial<LockError>
    const isRefusal = code === 'STALE_TOKEN' || code === 'TOKEN_CONFLICT' || code === 'TOKEN_SOURCE'
    note(isRefusal ? 'refused' : 'unknown')
    throw error
  }
}

function sleep({ process }: Place, ms: number): Promise<void> {
  return new Promise((resolve) => void process.seams.after(ms, resolve))
}
