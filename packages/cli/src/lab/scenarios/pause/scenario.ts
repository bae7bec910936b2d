/**
 * `pause`: A takes the lock for 300 ms, reads a balance and stands still for 500 ms. Meanwhile the
 * lock runs out, B takes it, reads, writes balance + 1 and releases. A wakes and writes its old
 * read + 1. Two increments happened; if the balance has risen by one, one is lost.
 *
 * The figures to compare with are those of a laboratory in Go (go-redis, pgx) that measured the
 * lock alone and the fence column; the guard's arms are ours.
 */
import type { Arm, Scenario } from '../../scenario.ts'
import type { Ground, GroundKind, WalletStores } from '../ground/ground.ts'
import { balanceOf, prepareWallets, putBack, walletState } from '../wallet/stores.ts'
import {
  columnUpdate,
  insideUpdate,
  leaseUpdate,
  plainUpdate,
  tokenUpdate,
} from '../wallet/updates.ts'
import { checkPause, isPauseAsPlanned } from './check.ts'
import { armWithLock, armWithoutLock } from './programs.ts'

/** A server ends the transaction of one that stands still; a file has nobody who could. */
const WAIT: Readonly<Record<GroundKind, string>> = {
  servers: 'for the rest of the validity',
  embedded: 'until the pause is over, for no server ends it sooner',
}

const armsOn = ({ kind }: Ground): readonly Arm<WalletStores>[] => [
  armWithoutLock(
    {
      name: 'no lock',
      protected: false,
      claim: 'one of the two updates is lost, and nobody gets an error',
    },
    plainUpdate,
  ),
  armWithLock(
    {
      name: 'lock only',
      protected: false,
      claim: 'one of the two updates is lost, and nobody gets an error',
    },
    plainUpdate,
  ),
  armWithLock(
    {
      name: 'lock + fence column',
      protected: true,
      claim: 'the store refuses the late write, A does its work again, and no update is lost',
    },
    columnUpdate,
  ),
  armWithLock(
    {
      name: 'lock + guard',
      protected: true,
      claim: 'the guard refuses the late write, A does its work again, and no update is lost',
    },
    tokenUpdate,
  ),
  armWithLock(
    {
      name: 'lock + lease',
      protected: true,
      claim: 'A finds its lease lost before it writes, does its work again, and no update is lost',
    },
    leaseUpdate,
  ),
  armWithLock(
    {
      name: 'lock + guard, pause inside',
      protected: true,
      claim: `A pauses inside its guarded transaction: B waits at most ${WAIT[kind]}, nobody is refused, and no update is lost`,
    },
    insideUpdate,
  ),
]

export const pauseOn = (ground: Ground): Scenario<WalletStores> => ({
  kind: 'rounds',
  name: 'pause',
  claim:
    'A holder that pauses past its TTL overwrites the next holder’s update, with a lock as ' +
    'without one; a fence at the data refuses the late write, and nothing is lost.',
  servers: ground.serversFor.wallets,
  roles: ['A', 'B'],
  fault: { kind: 'pause', role: 'A', ttlMs: 300, pauseMs: 500 },
  arms: armsOn(ground),
  metrics: [
    { key: 'lostUpdates', title: 'lost\nupdates' },
    { key: 'refusedWrites', title: 'refused\nby store' },
    { key: 'stoppedByHolder', title: 'stopped\nby holder' },
    { key: 'finalBalance', title: 'balance' },
    { key: 'expectedBalance', title: 'expected' },
  ],
  open: (addresses, role) => ground.openWallets(addresses, role),
  prepare: prepareWallets,
  remember: (stores, { name }) => balanceOf(stores, name),
  undo: putBack,
  finalState: (stores, { name }) => walletState(stores, name),
  isAsPlanned: (entries) => isPauseAsPlanned(entries, ground.kind),
  check: (record) => checkPause(record, ground.kind),
})
