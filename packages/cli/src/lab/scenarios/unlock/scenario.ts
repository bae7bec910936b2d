/**
 * `unlock`: A acquires for 300 ms and stands still for 500 ms. Meanwhile B acquires. A wakes and
 * cleans up; C asks. With a bare DEL, A has deleted the lock of B, and B and C both hold it.
 */
import type { Scenario } from '../../scenario.ts'
import type { Ground, LockStores } from '../ground/ground.ts'
import { checkUnlock, isUnlockAsPlanned } from './check.ts'
import { lookAtEntry } from './names.ts'
import { bareDelete, ownerChecked } from './programs.ts'

export const unlockOn = (ground: Ground): Scenario<LockStores> => ({
  kind: 'rounds',
  name: 'unlock',
  claim:
    'Who deletes a lock without asking whose it is deletes the next holder’s, and two hold it ' +
    'together; a release that checks the owner never does.',
  servers: ground.serversFor.locks,
  roles: ['A', 'B', 'C'],
  fault: { kind: 'pause', role: 'A', ttlMs: 300, pauseMs: 500 },
  arms: [bareDelete, ownerChecked],
  metrics: [{ key: 'doubleHolding', title: 'held by\ntwo at once' }],
  open: (addresses, role) => ground.openLocks(addresses, role),
  // Every performance has a lock name of its own, and whatever stays has a TTL: nothing to put back.
  prepare: async () => {},
  remember: async () => 0,
  undo: async () => ({ answer: 'nothing-to-do' }),
  look: { after: 'C:asked', act: lookAtEntry },
  finalState: async () => 'looked at in every round',
  isAsPlanned: isUnlockAsPlanned,
  check: checkUnlock,
})
