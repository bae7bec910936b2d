import type { TrialScenario } from '../../trial.ts'
import { embedded } from '../ground/embedded.ts'
import { campaignOn } from './scenario.ts'

export const scenario: TrialScenario = campaignOn(embedded)
