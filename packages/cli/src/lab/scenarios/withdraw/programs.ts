/** What A and B do in every arm of `withdraw`: A takes 500, B takes 300, from one wallet. */
import type { Arm, Round } from '../../scenario.ts'
import type { WalletStores } from '../ground/ground.ts'
import { walletNameOf } from '../wallet/judge-own.ts'
import {
  type ArmSpec,
  beginAfterPause,
  pausesOnce,
  updateUnderLock,
  workUntilDone,
} from '../wallet/tries.ts'
import type { LockedWork, UpdateAnswer, Work } from '../wallet/updates.ts'
import { CHANGES } from './amounts.ts'

type TryOnce = (work: Work) => Promise<UpdateAnswer>

/** Both have read before either writes; nobody pauses, and nobody is slow. */
export function armOfBothAtOnce(spec: ArmSpec, tryOnce: TryOnce): Arm<WalletStores> {
  return arm(spec, tryOnce, async () => {}, meet)
}

/** Both begin at once; nobody pauses. */
export function armWithoutPause(spec: ArmSpec, tryOnce: TryOnce): Arm<WalletStores> {
  return arm(
    spec,
    tryOnce,
    async () => {},
    () => async () => {},
  )
}

/** A pauses for longer than a lock lives; B comes when that lock is over. */
export function armWithPause(spec: ArmSpec, tryOnce: TryOnce): Arm<WalletStores> {
  return arm(spec, tryOnce, beginAfterPause, pausesOnce)
}

export function underLock(update: (work: LockedWork) => Promise<UpdateAnswer>): TryOnce {
  return (work) => updateUnderLock(work, work.round.fault.ttlMs, update)
}

function arm(
  spec: ArmSpec,
  tryOnce: TryOnce,
  begin: (round: Round) => Promise<void>,
  thinkIn: (round: Round) => () => Promise<void>,
): Arm<WalletStores> {
  return {
    ...spec,
    run: async (round, stores) => {
      await begin(round)
      const think = thinkIn(round)
      const wallet = walletNameOf(round, round.place)
      const change = round.role === 'A' ? CHANGES.A : CHANGES.B
      await workUntilDone(round, (tryNumber) =>
        tryOnce({ round, stores, wallet, change, tryNumber, think }),
      )
    },
  }
}

/** Goes on when the other one has read as well. */
function meet(round: Round): () => Promise<void> {
  return async () => {
    round.mark('read')
    await round.until(round.role === 'A' ? 'B:read' : 'A:read')
  }
}
