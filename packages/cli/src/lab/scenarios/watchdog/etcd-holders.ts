/** Who holds locks in etcd: a process opens its locks once, and all that it holds lies on one session. */
import type { Locks } from 'holdfast'
import type { Job, Program } from '../../trial.ts'
import { openEtcdLocks } from '../ground/etcd-locks.ts'
import {
  type HeldLock,
  type HolderInput,
  type Holding,
  holdWithLease,
  leasePrograms,
} from './holder.ts'
import { askInTurn } from './long-job.ts'

/** What a holder has to know to reach its store. */
export interface EtcdStore {
  readonly endpoint: string
}

const opened = new WeakMap<Job, Locks>()

function locksOf(job: Job): Locks {
  const { endpoint } = job.input as HolderInput<EtcdStore>
  const locks = opened.get(job) ?? openEtcdLocks([endpoint])
  opened.set(job, locks)
  return locks
}

function holdInEtcd(job: Job, lock: HeldLock): Promise<Holding> {
  const locks = locksOf(job)
  // It may be waiting for a store that never answers; the process ends anyway.
  return holdWithLease(job, lock, locks, () => void locks.close().catch(() => {}))
}

const { hold, holdForLong } = leasePrograms(holdInEtcd)

export const etcdHolders: Readonly<Record<string, Program>> = {
  holdInEtcd: hold,
  holdForLongInEtcd: holdForLong,
  askEtcd: async (job) => {
    const { endpoint, locks: names } = job.input as EtcdStore & { locks: readonly HeldLock[] }
    const locks = openEtcdLocks([endpoint])
    await askInTurn(job, locks, names)
    await locks.close()
  },
}
