import type { Scenario } from '../../scenario.ts'
import type { WalletStores } from '../ground/ground.ts'
import { servers } from '../ground/servers.ts'
import { lateWriteOn } from './scenario.ts'

export const scenario: Scenario<WalletStores> = lateWriteOn(servers)
