import type { TrialScenario } from '../../trial.ts'
import { servers } from '../ground/servers.ts'
import { ttlOn } from './scenario.ts'

export const scenario: TrialScenario = ttlOn(servers, ['redis', 'redlock of 3', 'etcd, one member'])
