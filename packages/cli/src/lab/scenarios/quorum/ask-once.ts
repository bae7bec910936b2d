/** One acquisition as a caller sees it: granted and given back, or refused, and how long it took. */
import { type Lease, LockError, type Locks } from 'holdfast'
import { monotonicUs } from '../../time.ts'
import type { Job } from '../../trial.ts'
import type { Pulse } from '../watchdog/pulse.ts'

/** A machine that is busy for seconds is no failure of a lock. */
const WARM_UP_WAIT_MS = 30_000

export interface Ask {
  /** What the history calls it. */
  readonly op: string
  readonly round: number
  readonly name: string
  readonly ttlMs: number
  readonly waitMs: number
  /** Of etcd a lock that is renewed costs one request, and one that is not costs two. */
  readonly renew?: boolean
}

/** The entry's value is how long this process was not served meanwhile, in milliseconds. */
export async function askOnce(job: Job, locks: Locks, pulse: Pulse, ask: Ask): Promise<void> {
  const { op, round, name, ttlMs, waitMs, renew = false } = ask
  const lostMs = pulse.lostMs()
  const calledAtUs = monotonicUs()
  const lease = await locks.acquire(name, { ttlMs, waitMs, renew }).catch(refusal)
  const value = Math.round(pulse.lostMs() - lostMs)
  if (typeof lease === 'string') {
    job.note(op, calledAtUs, { answer: 'refused', detail: lease, value }, round)
    return
  }
  job.note(op, calledAtUs, { answer: 'granted', token: `${lease.fencingToken}`, value }, round)
  const releasedAtUs = monotonicUs()
  job.note('release', releasedAtUs, { answer: await giveBack(lease) }, round)
}

/** A release without an answer in time is the machine's: what was not released runs out. */
export function giveBack(lease: Lease): Promise<string> {
  return lease.release().catch(refusal)
}

/** Code that ran, connections and scripts that are there, on a name of its own. */
export async function warmUp(locks: Locks, name: string, ttlMs: number): Promise<void> {
  await giveBack(await locks.acquire(name, { ttlMs, waitMs: WARM_UP_WAIT_MS, renew: false }))
}

/** What the library says when it cannot do something; every other error is one of the program. */
function refusal(error: unknown): string {
  if (error instanceof LockError) return `${error.code}: ${error.message}`
  throw error
}
