import type { Scenario } from '../../scenario.ts'
import type { LockStores } from '../ground/ground.ts'
import { servers } from '../ground/servers.ts'
import { unlockOn } from './scenario.ts'

export const scenario: Scenario<LockStores> = unlockOn(servers)
