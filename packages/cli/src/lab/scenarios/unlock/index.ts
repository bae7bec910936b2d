/**
 * `unlock`: A acquires for 300 ms and stands still for 500 ms. Meanwhile B acquires. A wakes and
 * cleans up; C asks. With a bare DEL, A has deleted the lock of B, and B and C both hold it.
 */
import type { Scenario } from '../../scenario.ts'
import { checkUnlock, isUnlockAsPlanned } from './check.ts'
import { bareDelete, ownerChecked } from './programs.ts'
import { lookAtKey, openUnlockStores, type UnlockStores } from './stores.ts'

export const scenario: Scenario<UnlockStores> = {
  kind: 'rounds',
  name: 'unlock',
  claim:
    'Who deletes a lock without asking whose it is deletes the next holder’s, and two hold it ' +
    'together; a release that checks the owner never does.',
  servers: ['redis'],
  roles: ['A', 'B', 'C'],
  fault: { kind: 'pause', role: 'A', ttlMs: 300, pauseMs: 500 },
  arms: [bareDelete, ownerChecked],
  metrics: [{ key: 'doubleHolding', title: 'held by\ntwo at once' }],
  open: openUnlockStores,
  // Every performance has a lock name of its own, and whatever stays has a TTL: nothing to put back.
  prepare: async () => {},
  remember: async () => 0,
  undo: async () => ({ answer: 'nothing-to-do' }),
  look: { after: 'C:asked', act: lookAtKey },
  finalState: async () => 'looked at in every round',
  isAsPlanned: isUnlockAsPlanned,
  check: checkUnlock,
}
