/**
 * `availability`: how many locks are granted, and how fast, when nodes are gone or stand still. One
 * Redis is the control: killed, it grants nothing. Of three by a majority one may be killed or hung;
 * without a majority nobody is granted anything, and everybody is told so in the time that they wait. The
 * same holds for the members of an etcd.
 */
import type { TrialArm, TrialScenario } from '../../trial.ts'
import { ask } from './ask.ts'
import { checkAvailability } from './check.ts'
import { type AvailabilityPlan, availabilityOf, hang, kill, nothing } from './organiser.ts'

const GRANTED = 'everybody is granted the lock that they ask for'

function armOf(name: string, claim: string, plan: AvailabilityPlan, isProtected = true): TrialArm {
  const face = { name, protected: isProtected, claim }
  const servers = plan.nodes === 'members' ? { servers: ['etcd'] as const } : {}
  return { ...face, ...servers, run: availabilityOf(plan) }
}

const arms: readonly TrialArm[] = [
  armOf('one redis, alive', GRANTED, { nodes: 1, fault: nothing }),
  armOf(
    'one redis, killed',
    'nobody is granted anything: there is no other node',
    { nodes: 1, fault: kill(1), isRefused: true },
    false,
  ),
  armOf('redlock of 3, all alive', GRANTED, { nodes: 3, fault: nothing }),
  armOf('redlock of 3, one killed', GRANTED, { nodes: 3, fault: kill(1) }),
  armOf('redlock of 3, one hung', GRANTED, { nodes: 3, fault: hang }),
  armOf(
    'redlock of 3, two killed',
    'one of three is no majority: nobody is granted anything, and everybody is told within their wait',
    { nodes: 3, fault: kill(2), isRefused: true },
  ),
  armOf('etcd of 3, all alive', GRANTED, { nodes: 'members', fault: nothing }),
  armOf('etcd of 3, leader killed', GRANTED, { nodes: 'members', fault: kill(1) }),
  armOf(
    'etcd of 3, two killed',
    'one of three is no majority: nobody is granted anything, and everybody is told within their wait',
    { nodes: 'members', fault: kill(2), isRefused: true },
  ),
]

const ASKED_MAX = 200
const ASKED_PER_ROUND = 2

export const scenario: TrialScenario = {
  kind: 'trials',
  name: 'availability',
  claim:
    'One Redis that is killed grants nothing. Of three, one may be killed or hung, and every lock is ' +
    'still granted; so it is by etcd when its leader is killed. With two killed nobody is granted ' +
    'anything, and everybody is told in time.',
  servers: ['redis'],
  arms,
  metrics: [
    { key: 'tried', title: 'tried' },
    { key: 'succeeded', title: 'suc-\nceeded' },
    { key: 'p50Ms', title: 'p50\nin ms' },
    { key: 'p99Ms', title: 'p99\nin ms' },
    { key: 'maxMs', title: 'longest\nin ms' },
  ],
  // They are compared in speed.
  armsAtOnce: 1,
  armMsMax: 300_000,
  plan: (rounds) => ({ rounds: Math.min(ASKED_MAX, rounds * ASKED_PER_ROUND), size: 1 }),
  programs: { ask },
  check: checkAvailability,
}
