/**
 * `withdraw`: 1000 are in a wallet. Two servers take out 500 and 300 at the same time: each reads
 * the balance, thinks, and writes what is left. 200 must be left; where one of them writes over the
 * other, 500 or 700 are, and both customers have got their money.
 *
 * Besides the locks two arms show where none is needed, or where one is enough: a store that
 * computes the new balance itself in one statement, and a lock whose holder is never slow.
 */
import type { Arm, Scenario } from '../../scenario.ts'
import type { Ground, WalletStores } from '../ground/ground.ts'
import { ownWallets } from '../wallet/own-wallets.ts'
import { leaseUpdate, oneStatement, plainUpdate, tokenUpdate } from '../wallet/updates.ts'
import { OPENED_WITH } from './amounts.ts'
import { checkWithdraw, isWithdrawAsPlanned } from './check.ts'
import { armOfBothAtOnce, armWithoutPause, armWithPause, underLock } from './programs.ts'

const arms: readonly Arm<WalletStores>[] = [
  armOfBothAtOnce(
    {
      name: 'no lock',
      protected: false,
      claim: 'both read 1000, one withdrawal is lost, and nobody gets an error',
    },
    plainUpdate,
  ),
  armWithPause(
    {
      name: 'no lock, one statement',
      protected: true,
      claim: 'the store computes what is left itself: 200, however long A pauses before it',
    },
    oneStatement,
  ),
  armWithoutPause(
    {
      name: 'lock, nobody pauses',
      protected: true,
      claim: 'as long as nobody is slow, one waits for the other, and 200 are left',
    },
    underLock(plainUpdate),
  ),
  armWithPause(
    {
      name: 'lock, A pauses',
      protected: false,
      claim: 'A writes over B’s withdrawal when it wakes, and nobody gets an error',
    },
    underLock(plainUpdate),
  ),
  armWithPause(
    {
      name: 'lock + guard, A pauses',
      protected: true,
      claim: 'the guard refuses A’s late write, A does its work again, and 200 are left',
    },
    underLock(tokenUpdate),
  ),
  armWithPause(
    {
      name: 'lock + lease, A pauses',
      protected: true,
      claim: 'A finds its lease lost before it writes, does its work again, and 200 are left',
    },
    underLock(leaseUpdate),
  ),
]

export const withdrawOn = (ground: Ground): Scenario<WalletStores> => ({
  kind: 'rounds',
  name: 'withdraw',
  claim:
    'Two servers take 500 and 300 out of 1000 at the same time. Without a lock, or with one whose ' +
    'holder is slow, one withdrawal vanishes; with lock and guard 200 are left in every round.',
  servers: ground.serversFor.wallets,
  roles: ['A', 'B'],
  fault: { kind: 'pause', role: 'A', ttlMs: 300, pauseMs: 500 },
  arms,
  metrics: [
    { key: 'lostUpdates', title: 'lost\nupdates' },
    { key: 'finalBalance', title: 'balance' },
    { key: 'expectedBalance', title: 'expected' },
  ],
  ...ownWallets(ground, OPENED_WITH),
  isAsPlanned: isWithdrawAsPlanned,
  check: checkWithdraw,
})
