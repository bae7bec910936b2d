/** What A and B do in every arm of `pause`. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Arm } from '../../scenario.ts'
import type { WalletStores } from '../ground/ground.ts'
import {
  type ArmSpec,
  BEFORE_TTL_ENDS_MS,
  beginAfterPause,
  pausesOnce,
  updateUnderLock,
  workUntilDone,
} from '../wallet/tries.ts'
import type { LockedWork, UpdateAnswer, Work } from '../wallet/updates.ts'

/** Without a lock nothing tells B when to begin: as long after A as it takes where there is one. */
const WITHOUT_LOCK_MS = 50

/** An arm in which nobody asks for a lock. */
export function armWithoutLock(
  spec: ArmSpec,
  update: (work: Work) => Promise<UpdateAnswer>,
): Arm<WalletStores> {
  return arm(spec, async (work) => {
    if (work.round.role !== work.round.fault.role) await sleep(BEFORE_TTL_ENDS_MS + WITHOUT_LOCK_MS)
    return update(work)
  })
}

/** An arm in which every try is made under a lock. */
export function armWithLock(
  spec: ArmSpec,
  update: (work: LockedWork) => Promise<UpdateAnswer>,
): Arm<WalletStores> {
  return arm(spec, (work) => updateUnderLock(work, work.round.fault.ttlMs, update))
}

/** Both add one. A pauses once, between its read and its write. */
function arm(spec: ArmSpec, tryOnce: (work: Work) => Promise<UpdateAnswer>): Arm<WalletStores> {
  return {
    ...spec,
    run: async (round, stores) => {
      await beginAfterPause(round)
      const think = pausesOnce(round)
      const wallet = round.place
      await workUntilDone(round, (tryNumber) =>
        tryOnce({ round, stores, wallet, change: 1, tryNumber, think }),
      )
    },
  }
}
