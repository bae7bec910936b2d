import type { Scenario } from '../scenario.ts'
import type { TrialScenario } from '../trial.ts'
import { scenario as availability } from './availability/index.ts'
import { scenario as campaign } from './campaign/index.ts'
import { scenario as dataLoss } from './data-loss/index.ts'
import { scenario as failover } from './failover/index.ts'
import { scenario as lateWrite } from './late-write/index.ts'
import { scenario as pause } from './pause/index.ts'
import { scenario as splitBrain } from './split-brain/index.ts'
import { scenario as ttl } from './ttl/index.ts'
import { scenario as unlock } from './unlock/index.ts'
import { scenario as watchdog } from './watchdog/index.ts'
import { scenario as withdraw } from './withdraw/index.ts'

export interface KnownScenario {
  readonly scenario: Scenario | TrialScenario
  /** The module that exports it, for the workers. */
  readonly module: string
}

/** In the order in which a run without names takes them. */
export const SCENARIOS: readonly KnownScenario[] = [
  { scenario: pause, module: new URL('./pause/index.js', import.meta.url).href },
  { scenario: unlock, module: new URL('./unlock/index.js', import.meta.url).href },
  { scenario: withdraw, module: new URL('./withdraw/index.js', import.meta.url).href },
  { scenario: lateWrite, module: new URL('./late-write/index.js', import.meta.url).href },
  { scenario: campaign, module: new URL('./campaign/index.js', import.meta.url).href },
  { scenario: dataLoss, module: new URL('./data-loss/index.js', import.meta.url).href },
  { scenario: availability, module: new URL('./availability/index.js', import.meta.url).href },
  { scenario: splitBrain, module: new URL('./split-brain/index.js', import.meta.url).href },
  { scenario: watchdog, module: new URL('./watchdog/index.js', import.meta.url).href },
  { scenario: failover, module: new URL('./failover/index.js', import.meta.url).href },
  { scenario: ttl, module: new URL('./ttl/index.js', import.meta.url).href },
]
