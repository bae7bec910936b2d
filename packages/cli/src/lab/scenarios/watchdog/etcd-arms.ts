/**
 * `watchdog` on etcd, one member: the TTL that counts is the one that etcd granted. All locks of a process lie
 * on one session, so what is kept alive, or is not, is the session.
 */
import type { Trial, TrialArm } from '../../trial.ts'
import type { Ground } from '../ground/ground.ts'
import { blockHolders } from './blocked-loop.ts'
import { openEtcdJob, openEtcdStand } from './etcd-stand.ts'
import { loseStore } from './failing-store.ts'
import { keepForLong } from './long-job.ts'
import { CLAIMS, STORE_FAULTS, type StoreFaultName } from './scenario.ts'

const FAULTS: Readonly<Record<StoreFaultName, string>> = {
  silent: 'nothing gets through to etcd or back',
  slow: 'answers come two TTLs late',
  hung: 'the member stands still',
  dead: 'the member is killed',
}

/** @param ground Where the data are that the guard is at. */
export function etcdArmsOn(ground: Ground): TrialArm[] {
  const arms: Pick<TrialArm, 'name' | 'claim' | 'run'>[] = [
    {
      name: 'etcd, long job',
      claim: CLAIMS.longJob,
      run: (trial) => keepForLong(trial, openEtcdJob),
    },
    ...STORE_FAULTS.map((fault) => ({
      name: `etcd, ${fault}`,
      claim: `${FAULTS[fault]}: ${CLAIMS.told}`,
      run: (trial: Trial) => loseStore(trial, fault, openEtcdStand),
    })),
    {
      name: 'etcd, blocked loop',
      claim: CLAIMS.blockedLoop,
      run: async (trial) => blockHolders(trial, ground, await trial.startEtcd()),
    },
  ]
  return arms.map((arm) => ({ ...arm, protected: true, servers: ['etcd'] }))
}
