/** `failover` on files of SQLite: who stands still there may have the file’s write lock, so nobody does. */
import type { TrialScenario } from '../../trial.ts'
import { embedded } from '../ground/embedded.ts'
import { failoverOn } from './scenario.ts'

export const scenario: TrialScenario = failoverOn(
  embedded,
  [{ keeper: 'sqlite', faults: ['kill', 'resign'] }],
  { keeper: 'sqlite', faults: ['resign'] },
)
