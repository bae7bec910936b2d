/** Bugs of the list that no schedule of the simulation can find, and what finds them. */
import type { Elsewhere } from './mutant.ts'

const COMPARISON = 'packages/holdfast/test/faults/redis-model-mutants.test.ts'
const ETCD = 'packages/holdfast/test/faults/etcd-bugs.test.ts'
const RENEWAL = 'packages/holdfast/test/unit/redlock/renewal-bugs.test.ts'

export const ELSEWHERE: readonly Elsewhere[] = [
  {
    // Of an unknown COMMIT; the guard of the simulation commits in one step with its answer.
    name: 'retryOnOtherOp',
    caught: 'conformance',
    where: 'packages/holdfast/test/conformance/postgres-guard.test.ts',
  },
  // Of nodes, by their names in the protocols: "a node extends whosever it is", "a node that waits is
  // repaired".
  { name: 'extendNoOwner', caught: 'differential', where: COMPARISON },
  { name: 'repairOnAmnesiac', caught: 'differential', where: COMPARISON },
  // More answers must be late, in one order, than are drawn.
  { name: 'lateOkRevivesNode', caught: 'conformance', where: RENEWAL },
  { name: 'repairUnconfirmed', caught: 'conformance', where: RENEWAL },
  { name: 'extendLateStartOnRedlock', caught: 'conformance', where: RENEWAL },
  // The simulation has no etcd.
  { name: 'etcdTurnUnproven', caught: 'conformance', where: ETCD },
  { name: 'etcdCancelNoTombstone', caught: 'conformance', where: ETCD },
  { name: 'etcdMoveBelieved', caught: 'conformance', where: ETCD },
  { name: 'etcdStrayOfOthers', caught: 'conformance', where: ETCD },
  { name: 'etcdSleepForgotten', caught: 'conformance', where: ETCD },
  {
    // There as `countersOfTooFew`, in schedules of admission alone.
    name: 'floorsOfTooFew',
    caught: 'conformance',
    where: 'packages/holdfast/test/unit/redlock/admission-table.test.ts',
  },
]
