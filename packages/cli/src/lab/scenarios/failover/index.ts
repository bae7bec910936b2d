import type { TrialScenario } from '../../trial.ts'
import { servers } from '../ground/servers.ts'
import { failoverOn } from './scenario.ts'

const faults = ['kill', 'stop', 'resign'] as const

export const scenario: TrialScenario = failoverOn(
  servers,
  [
    { name: 'redis', nodes: 1, faults },
    { name: 'redlock of 3', nodes: 3, faults },
  ],
  { name: 'redis', nodes: 1, faults: ['stop'] },
)
