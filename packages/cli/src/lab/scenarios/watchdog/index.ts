/**
 * `watchdog` on servers. Half of the locks are held with ioredis, half with node-redis, with the
 * options that each has by default.
 */
import type { TrialScenario } from '../../trial.ts'
import { servers } from '../ground/servers.ts'
import { faults, loseStore } from './failing-store.ts'
import { redisHolders } from './holder.ts'
import { ask, openRedisJob } from './redis-job.ts'
import { watchdogOn } from './scenario.ts'

export const scenario: TrialScenario = watchdogOn(servers, {
  openJob: openRedisJob,
  faults: {
    silent: 'nothing gets through to the store or back',
    slow: 'answers come two TTLs late',
    hung: 'the server stands still',
    dead: 'the server is killed',
  },
  lose: (trial, fault, program) => loseStore(trial, faults[fault], program),
  programs: { ...redisHolders, ask },
})
