/**
 * Who asks for locks: the same work before and after something happens to the nodes, each lock with
 * a name of its own, so that nobody ever waits for another holder.
 */
import type { Program } from '../../trial.ts'
import { askOnce, warmUp } from '../quorum/ask-once.ts'
import { type Driver, type OpenLocks, openLocks } from '../quorum/locks.ts'
import { Pulse } from '../watchdog/pulse.ts'

export interface AskInput {
  readonly ports: readonly number[]
  /** They take turns. */
  readonly drivers: readonly Driver[]
  readonly place: string
  readonly count: number
  /** Asked at the same time, after the fault. Before it they are asked one by one. */
  readonly atOnce: number
  readonly waitMs: number
}

/** For each lock that is asked for: of 200, a thousand before. etcd takes far longer for each. */
const WARM_UPS = 5
const WARM_UPS_OF_ETCD = 0.5
const TTL_MS = 10_000
/** While all nodes are alive: a machine that is busy for seconds is no failure of a lock. */
const BEFORE_WAIT_MS = 10_000

export const ask: Program = async (job) => {
  const { ports, drivers, place, count, atOnce, waitMs } = job.input as AskInput
  const renew = drivers.includes('etcd')
  const warmUps = (count * (renew ? WARM_UPS_OF_ETCD : WARM_UPS)) / drivers.length
  const askers: OpenLocks[] = []
  // One after the other: the first one makes the prefix of an empty set, without the wait.
  for (const name of drivers) {
    const asker = await openLocks(name, ports, { onEmpty: 'fresh' })
    askers.push(asker)
    for (let time = 0; time < warmUps; time++) {
      await warmUp(asker.locks, `${place}:${name}:${time}`, TTL_MS)
    }
  }
  const pulse = new Pulse()
  const askFor = async (op: string, round: number, waitMs: number): Promise<void> => {
    const { locks } = askers[round % askers.length] as OpenLocks
    const name = `${place}:${op}:${round}`
    await askOnce(job, locks, pulse, { op, round, name, ttlMs: TTL_MS, waitMs, renew })
  }
  for (let round = 0; round < count; round++) await askFor('before', round, BEFORE_WAIT_MS)
  await job.mark('measured')
  await job.until('fault')
  let next = 0
  const askSome = async (): Promise<void> => {
    for (let round = next++; round < count; round = next++) {
      await askFor('acquire', round, waitMs)
    }
  }
  await Promise.all(Array.from({ length: atOnce }, () => askSome()))
  pulse.stop()
  for (const { close } of askers) close()
}
