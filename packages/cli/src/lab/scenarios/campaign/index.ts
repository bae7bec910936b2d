import type { TrialScenario } from '../../trial.ts'
import { servers } from '../ground/servers.ts'
import { campaignOn } from './scenario.ts'

export const scenario: TrialScenario = campaignOn(servers)
