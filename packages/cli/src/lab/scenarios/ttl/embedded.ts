import type { TrialScenario } from '../../trial.ts'
import { embedded } from '../ground/embedded.ts'
import { ttlOn } from './scenario.ts'

export const scenario: TrialScenario = ttlOn(embedded, ['sqlite'])
