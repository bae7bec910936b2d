/**
 * `split-brain`: a network that falls into two parts. One Redis with a replica is the control: each
 * part has one, and both grant the same lock. Of three nodes only one part can have a majority: the
 * other one grants nothing, and a holder that is left there is told before anybody else can be granted
 * its lock. What it writes later is refused. The same holds for three members of etcd, also for who is left
 * with the one that leads.
 */
import type { TrialScenario } from '../../trial.ts'
import { write } from '../wallet/write-held.ts'
import { askInSteps, askOnBothSides } from './asking.ts'
import { checkSplitBrain } from './check.ts'
import { cutOff } from './cut-off.ts'
import { hold, take } from './holders.ts'
import { leaderAndFollowers, primaryAndReplica, threeNodes } from './parts.ts'

const ROUNDS_PER_ROUND = 1 / 5

export const scenario: TrialScenario = {
  kind: 'trials',
  name: 'split-brain',
  claim:
    'When the network falls into two parts, a Redis and its promoted replica grant one lock twice. Of ' +
    'three nodes, or members of etcd, the minority grants nothing; a holder there is told before others ' +
    'can get its lock, and its late write is refused.',
  servers: ['redis', 'postgres'],
  arms: [
    {
      name: 'one redis, cut off',
      protected: false,
      claim:
        'the holder keeps its lock at the primary, another one is granted it at the promoted replica, ' +
        'and the late write goes over the new one',
      run: cutOff(primaryAndReplica, true),
    },
    {
      name: 'redlock of 3, both ask',
      protected: true,
      claim:
        'the minority is refused, in the time that it waits; the majority is granted every lock',
      run: askOnBothSides(threeNodes),
    },
    {
      name: 'redlock of 3, cut off',
      protected: true,
      claim:
        'the holder is told before anybody else can be granted its lock, and its late write is refused',
      run: cutOff(threeNodes, false),
    },
    {
      name: 'etcd of 3, both ask',
      protected: true,
      servers: ['etcd'],
      claim:
        'beside the leader, alone, nobody is granted anything, in the time that it waits; beside the ' +
        'followers every lock is',
      run: askOnBothSides(leaderAndFollowers),
    },
    {
      name: 'etcd of 3, cut off',
      protected: true,
      servers: ['etcd'],
      claim:
        'the holder beside the leader is told before anybody else can be granted its lock, and its late ' +
        'write is refused',
      run: cutOff(leaderAndFollowers, false),
    },
  ],
  metrics: [
    { key: 'minorityGranted', title: 'minority\ngranted' },
    { key: 'majorityGranted', title: 'majority\ngranted' },
    { key: 'toldBefore', title: 'told\nbefore' },
    { key: 'worstMarginMs', title: 'worst margin\nin ms' },
    { key: 'heldByTwo', title: 'held by\ntwo at once' },
    { key: 'refusedLate', title: 'late write\nrefused' },
  ],
  armsAtOnce: 5,
  armMsMax: 600_000,
  // Each pass takes several seconds, however many locks there are.
  plan: (rounds) => ({ rounds: Math.max(2, Math.ceil(rounds * ROUNDS_PER_ROUND)), size: 1 }),
  programs: { hold, take, askInSteps, write },
  check: checkSplitBrain,
}
