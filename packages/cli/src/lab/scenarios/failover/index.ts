import type { TrialScenario } from '../../trial.ts'
import { servers } from '../ground/servers.ts'
import { failoverOn, memberArmsOn } from './scenario.ts'

const faults = ['kill', 'stop', 'resign'] as const

export const scenario: TrialScenario = failoverOn(
  servers,
  [
    { keeper: 'redis', faults },
    { keeper: 'redlock of 3', faults },
    { keeper: 'etcd, one member', faults, servers: ['etcd'] },
    { keeper: 'etcd, three members', faults, servers: ['etcd'] },
  ],
  { keeper: 'redis', faults: ['stop'] },
  memberArmsOn(servers),
)
