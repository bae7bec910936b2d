/** The arms of `data-loss` in which the locks are on three nodes. */
import { whyNoClockShim } from '../../servers/index.ts'
import type { TrialArm } from '../../trial.ts'
import {
  clockJump,
  emptyRestart,
  emptyRestartAndClockBack,
  flushAll,
  type QuorumLoss,
  unsyncedReplica,
} from './losses.ts'
import { type LossPlan, quorumLossBy } from './organiser.ts'

const BOTH_WRONG =
  'a node that forgot makes a second majority: B is granted the lock while A holds it, with a token ' +
  'no larger than A’s, so the guard refuses B and admits A'
const KEPT =
  'the node that forgot does not vote for a TTL: B is refused while A holds the lock, its token is ' +
  'larger, A’s late write is refused, and the node votes again'
const RISING =
  'B is refused while A holds the lock, its token is larger, and A’s late write is refused'

const LOSSES: readonly (readonly [string, QuorumLoss])[] = [
  ['empty restart', emptyRestart],
  ['FLUSHALL', flushAll],
  ['unsynced replica', unsyncedReplica],
]

function ours(name: string, claim: string, plan: Omit<LossPlan, 'isOurs'>): TrialArm {
  const run = quorumLossBy({ ...plan, isOurs: true })
  return { name: `redlock of 3, ${name}`, protected: true, claim, run }
}

function withClock(arm: TrialArm): TrialArm {
  return { ...arm, obstacle: async () => whyNoClockShim() }
}

function notCovered(arm: TrialArm): TrialArm {
  return { ...arm, protected: false, notCovered: true }
}

export const quorumArms: readonly TrialArm[] = [
  ...LOSSES.flatMap(([name, loss]) => [
    {
      name: `by hand on 3, ${name}`,
      protected: false,
      claim: BOTH_WRONG,
      run: quorumLossBy({ loss, strikes: 1, isOurs: false }),
    },
    ours(name, KEPT, { loss, strikes: 1 }),
  ]),
  withClock(
    ours('empty restart and clock back', `the two others know how far tokens have come: ${KEPT}`, {
      ...{ loss: emptyRestartAndClockBack, strikes: 1 },
    }),
  ),
  ours('all restart empty', `no node votes for a TTL, so ${RISING}`, {
    ...{ loss: emptyRestart, strikes: 3 },
  }),
  withClock(
    notCovered(
      ours(
        'all restart empty and clocks back',
        'with all data and an hour of every node’s clock lost, B’s token is smaller: the guard refuses ' +
          'B, which is right, and admits A',
        { loss: emptyRestartAndClockBack, strikes: 3 },
      ),
    ),
  ),
  withClock(
    ours('clock an hour ahead', `one node’s keys run out at once; two have theirs: ${RISING}`, {
      ...{ loss: clockJump(1), strikes: 1, isHeldOnAll: true, keepsData: true },
    }),
  ),
  withClock(
    ours(
      'clock an hour back',
      `one node’s keys live an hour longer; two are a majority: ${RISING}`,
      {
        ...{ loss: clockJump(-1), strikes: 1, isHeldOnAll: true, keepsData: true },
      },
    ),
  ),
  withClock(
    notCovered(
      ours(
        'held on two, clock an hour ahead',
        'one of the two nodes that granted it lets it run out: B is granted it while A holds it; the ' +
          'token is larger, and A’s late write is refused',
        { loss: clockJump(1), strikes: 1, keepsData: true },
      ),
    ),
  ),
]
