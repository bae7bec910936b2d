/**
 * `watchdog` on servers. Half of the locks are held with ioredis, half with node-redis, with the
 * options that each has by default. The arms on etcd are the same ones, in etcd-arms.ts.
 */
import type { TrialScenario } from '../../trial.ts'
import { servers } from '../ground/servers.ts'
import { etcdArmsOn } from './etcd-arms.ts'
import { etcdHolders } from './etcd-holders.ts'
import { loseStore } from './failing-store.ts'
import { redisHolders } from './holder.ts'
import { ask, openRedisJob } from './redis-job.ts'
import { openRedisStand } from './redis-stand.ts'
import { watchdogOn } from './scenario.ts'

export const scenario: TrialScenario = watchdogOn(servers, {
  openJob: openRedisJob,
  faults: {
    silent: 'nothing gets through to the store or back',
    slow: 'answers come two TTLs late',
    hung: 'the server stands still',
    dead: 'the server is killed',
  },
  lose: (trial, fault, program) => loseStore(trial, fault, openRedisStand(program)),
  more: etcdArmsOn(servers),
  programs: { ...redisHolders, ask, ...etcdHolders },
})
