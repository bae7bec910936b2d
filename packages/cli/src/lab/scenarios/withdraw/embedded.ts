import type { Scenario } from '../../scenario.ts'
import { embedded } from '../ground/embedded.ts'
import type { WalletStores } from '../ground/ground.ts'
import { withdrawOn } from './scenario.ts'

export const scenario: Scenario<WalletStores> = withdrawOn(embedded)
