/**
 * `late-write`: tokens that are all right, and an acknowledged update is lost all the same. A's
 * write lands between the read and the write of B, the next holder. A guard that compares tokens
 * only in the write finds nothing wrong with it: B's larger token has not been at the row yet. B
 * then writes what it computed from the balance before.
 *
 * Who claims first has its token at the row before it reads, so that A's write is the one refused. `guard.update` alone does not: it is for values that depend on no
 * read.
 */
import type { Arm, Scenario } from '../../scenario.ts'
import type { Ground, WalletStores } from '../ground/ground.ts'
import { ownWallets } from '../wallet/own-wallets.ts'
import {
  claimThenReadUpdate,
  columnUpdate,
  guardUpdate,
  guardUpdateTwice,
  tokenUpdate,
} from '../wallet/updates.ts'
import { checkLateWrite, isLateAsPlanned } from './check.ts'
import { lateArm } from './programs.ts'

const arms: readonly Arm<WalletStores>[] = [
  lateArm(
    {
      name: 'write-only guard',
      protected: false,
      claim: 'both writes are acknowledged, and A’s is lost: the guard sees B’s token too late',
    },
    columnUpdate,
  ),
  lateArm(
    {
      name: 'claim and read together',
      protected: true,
      claim: 'the guard refuses A’s late write, A does its work again, and nothing is lost',
    },
    tokenUpdate,
  ),
  lateArm(
    {
      name: 'claim, then read',
      protected: true,
      claim: 'a claim before the read is enough: A’s late write is refused, and nothing is lost',
    },
    claimThenReadUpdate,
  ),
  lateArm(
    {
      name: 'guard.update after a read',
      protected: false,
      notCovered: true,
      claim: 'the column form compares in the write alone: what was read before is not covered',
    },
    guardUpdate,
  ),
  lateArm(
    {
      name: 'guard.update, read, guard.update',
      protected: true,
      claim: 'an update before the read brings B’s token to the row: A’s late write is refused',
    },
    guardUpdateTwice,
  ),
]

export const lateWriteOn = (ground: Ground): Scenario<WalletStores> => ({
  kind: 'rounds',
  name: 'late-write',
  claim:
    'A guard that compares tokens only when somebody writes loses an acknowledged update; one at ' +
    'which the next holder claims before it reads does not.',
  servers: ground.serversFor.wallets,
  roles: ['A', 'B'],
  fault: { kind: 'pause', role: 'A', ttlMs: 300, pauseMs: 500 },
  arms,
  metrics: [
    { key: 'acknowledged', title: 'acknow-\nledged' },
    { key: 'lost', title: 'lost' },
    { key: 'refusedWrites', title: 'refused\nby store' },
  ],
  ...ownWallets(ground, 0),
  isAsPlanned: isLateAsPlanned,
  check: checkLateWrite,
})
