/**
 * `data-loss`: A holds the lock of one Redis and has written; Redis loses its data; B is granted the
 * same lock, because nobody knows of A any more. B writes, and A writes once more. Exclusion is gone
 * for both kinds of lock; what counts is whether the guard can still tell the newer from the older.
 *
 * Tokens from a plain INCR begin again, or a promoted replica grants one a second time: the guard
 * refuses the good one and admits the old one. Tokens on the scale of the server's clock go on
 * rising, as long as that clock goes forward. The last arm shows that this is a condition.
 */
import { whyNoClockShim } from '../../servers/index.ts'
import type { TrialArm, TrialScenario } from '../../trial.ts'
import { quorumArms } from '../quorum-loss/arms.ts'
import { checkQuorumLoss } from '../quorum-loss/check.ts'
import { isQuorumArm } from '../quorum-loss/expected.ts'
import { follow, keep } from '../quorum-loss/holders.ts'
import { write } from '../wallet/write-held.ts'
import { checkDataLoss } from './check.ts'
import {
  emptyRestart,
  emptyRestartAndClockBack,
  flushAll,
  type Loss,
  unsyncedReplica,
} from './losses.ts'
import { dataLossBy } from './organiser.ts'
import { take } from './programs.ts'

const GOES_WRONG =
  'B’s token is no larger than one before: the guard refuses B, which is right, and admits A'
const GOES_WELL = 'B’s token is larger than all before: the guard admits B and refuses A'

function control(name: string, loss: Loss): TrialArm {
  return {
    name: `INCR, ${name}`,
    protected: false,
    claim: GOES_WRONG,
    run: dataLossBy(loss, false),
  }
}

function ours(name: string, loss: Loss): TrialArm {
  return {
    name: `Holdfast, ${name}`,
    protected: true,
    claim: GOES_WELL,
    run: dataLossBy(loss, true),
  }
}

const LOSSES: readonly (readonly [string, Loss])[] = [
  ['empty restart', emptyRestart],
  ['FLUSHALL', flushAll],
  ['unsynced replica', unsyncedReplica],
]

const arms: readonly TrialArm[] = [
  ...LOSSES.flatMap(([name, loss]) => [control(name, loss), ours(name, loss)]),
  {
    name: 'Holdfast, empty restart and clock back',
    protected: false,
    notCovered: true,
    claim: `with data and an hour of the clock lost, ${GOES_WRONG}`,
    obstacle: async () => whyNoClockShim(),
    run: dataLossBy(emptyRestartAndClockBack, true),
  },
  ...quorumArms,
]

/** A round starts and ends servers and takes about a second, so there are fewer of them. */
const ROUNDS_PER_LOSS = 10
/** Mostly they wait for servers to start. */
const ARMS_AT_ONCE = 4

export const scenario: TrialScenario = {
  kind: 'trials',
  name: 'data-loss',
  claim:
    'A Redis that lost its data grants a lock that somebody holds. Tokens from INCR restart or ' +
    'repeat, and a guard then refuses the wrong one; Holdfast’s go on rising while the clock of ' +
    'the server goes forward.',
  servers: ['redis', 'postgres'],
  arms,
  metrics: [
    { key: 'tokensRepeated', title: 'tokens\nrepeated' },
    { key: 'tokensFell', title: 'tokens\nfell' },
    { key: 'refusedGood', title: 'refused\ngood' },
    { key: 'admittedStale', title: 'admitted\nstale' },
    { key: 'heldByTwo', title: 'held by\ntwo' },
    { key: 'readmitted', title: 'read-\nmitted' },
  ],
  armsAtOnce: ARMS_AT_ONCE,
  armMsMax: 900_000,
  plan: (rounds) => ({ rounds: Math.ceil(rounds / ROUNDS_PER_LOSS), size: 1 }),
  programs: { take, write, keep, follow },
  check: (record) =>
    isQuorumArm(record.arm.name) ? checkQuorumLoss(record) : checkDataLoss(record),
}
