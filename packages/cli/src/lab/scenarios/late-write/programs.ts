/**
 * What A and B do in every arm of `late-write`. Both add one to a balance.
 *
 * A reads and stands still past its TTL. B gets the lock and reads; only then A writes, and only
 * then B. The order of the last three steps is forced, so that the write that is late falls between
 * the next holder's read and its write, however slow the machine.
 */
import type { Arm, Round } from '../../scenario.ts'
import type { WalletStores } from '../ground/ground.ts'
import { HOLD_MS } from '../hold.ts'
import { walletNameOf } from '../wallet/judge-own.ts'
import {
  type ArmSpec,
  beginAfterPause,
  pausesOnce,
  updateUnderLock,
  workUntilDone,
} from '../wallet/tries.ts'
import type { LockedWork, UpdateAnswer } from '../wallet/updates.ts'

export function lateArm(
  spec: ArmSpec,
  update: (work: LockedWork) => Promise<UpdateAnswer>,
): Arm<WalletStores> {
  return {
    ...spec,
    run: async (round, stores) => {
      await beginAfterPause(round)
      const part = round.role === 'A' ? lateWriter(round) : nextHolder(round)
      const wallet = walletNameOf(round, round.place)
      // B's lock does not run out while B waits for A.
      const ttlMs = round.role === 'A' ? round.fault.ttlMs : HOLD_MS
      await workUntilDone(round, (tryNumber) => {
        const work = { round, stores, wallet, change: 1, tryNumber, think: part.think }
        return updateUnderLock(work, ttlMs, async (locked) => {
          const answer = await update(locked)
          part.afterUpdate()
          return answer
        })
      })
    },
  }
}

interface Part {
  think(): Promise<void>
  afterUpdate(): void
}

/** A: once it has paused and B has read, its next write is the late one. */
function lateWriter(round: Round): Part {
  const pause = pausesOnce(round)
  let hasPaused = false
  return {
    think: async () => {
      await pause()
      await round.until('B:read')
      hasPaused = true
    },
    afterUpdate: () => {
      if (hasPaused) round.mark('wrote')
    },
  }
}

/** B: between its read and its write A's late write is answered. */
function nextHolder(round: Round): Part {
  return {
    think: async () => {
      round.mark('read')
      await round.until('A:wrote')
    },
    afterUpdate: () => {},
  }
}
