import type { Scenario } from '../../scenario.ts'
import { embedded } from '../ground/embedded.ts'
import type { LockStores } from '../ground/ground.ts'
import { unlockOn } from './scenario.ts'

export const scenario: Scenario<LockStores> = unlockOn(embedded)
