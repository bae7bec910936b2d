/**
 * `failover`: how long nobody leads when the leader is killed, stands still or resigns, and whether anything
 * that the deposed one still writes is accepted. In a bare arm nobody looks at tokens.
 */
import type { TrialArm, TrialScenario } from '../../trial.ts'
import type { Ground } from '../ground/ground.ts'
import { TOO_LONG } from '../too-long.ts'
import { candidateProgram } from './candidates.ts'
import { checkFailover } from './check.ts'
import { type MemberFault, memberFaultsOf } from './member-faults.ts'
import { type FailoverPlan, failoverOf } from './organiser.ts'
import { workingLeaderProgram } from './working-leader.ts'

const TTLS_S = [1, 2, 5]
/** An election of etcd takes longer than the one, and less than the other. */
const MEMBER_TTLS_S = [2, 5]
const LONG_S = 5

export type FailoverStore = Pick<FailoverPlan, 'keeper' | 'faults'> & Pick<TrialArm, 'servers'>

export function failoverOn(
  ground: Ground,
  stores: readonly FailoverStore[],
  bare: FailoverStore,
  more: readonly TrialArm[] = [],
): TrialScenario {
  return {
    kind: 'trials',
    name: 'failover',
    claim:
      'When the leader is killed, stands still or resigns, another one leads in a later term; and what ' +
      'the deposed leader still writes is refused.',
    servers: ground.serversFor.wallets,
    arms: [bareArm(ground, bare), ...stores.flatMap((store) => armsOf(ground, store)), ...more],
    metrics: [
      { key: 'grantedTtlMs', title: 'granted\nttl ms' },
      { key: 'killedP50Ms', title: 'killed\np50 ms' },
      { key: 'killedMaxMs', title: 'longest\nms' },
      { key: 'stoppedP50Ms', title: 'stopped\np50 ms' },
      { key: 'stoppedMaxMs', title: 'longest\nms' },
      { key: 'resignedP50Ms', title: 'resigned\np50 ms' },
      { key: 'resignedMaxMs', title: 'longest\nms' },
      { key: 'keptTerms', title: 'kept\nterm' },
      { key: 'toldLate', title: 'told\nlate' },
      { key: 'lateWrites', title: 'late\nwrites' },
      { key: 'refusedLate', title: 'refused\nby guard' },
    ],
    // Most of the time nobody does anything but wait for a TTL.
    armsAtOnce: 6,
    armMsMax: 600_000,
    // Each takes two TTLs and more: one for a quick run, ten for a full one.
    plan: (rounds) => ({ rounds: Math.max(1, Math.round((rounds - 100) / 30)), size: 1 }),
    programs: { stand: candidateProgram(ground), work: workingLeaderProgram(ground) },
    check: checkFailover,
  }
}

function bareArm(ground: Ground, { keeper, faults }: FailoverStore): TrialArm {
  return {
    name: `bare writes, ${keeper}, ttl 1 s`,
    protected: false,
    claim: 'nobody looks at terms: the late write of the deposed leader goes over the new one’s',
    run: failoverOf(ground, { keeper, faults, ttlMs: 1000, isBare: true }),
  }
}

function armsOf(ground: Ground, { keeper, faults, servers = [] }: FailoverStore): TrialArm[] {
  return TTLS_S.map((seconds) => ({
    name: `${keeper}, ttl ${seconds} s`,
    protected: true,
    servers,
    claim:
      'another one leads in a later term, and the guard refuses what the deposed leader writes',
    run: failoverOf(ground, { keeper, faults, ttlMs: 1000 * seconds }),
    ...(servers.length > 0 && inFullOnly(seconds)),
  }))
}

/** Of the arms that start an etcd: a quick run has no time for all of them. */
function inFullOnly(ttlSeconds: number): Pick<TrialArm, 'obstacle'> {
  if (ttlSeconds < LONG_S) return {}
  return { obstacle: async ({ rounds }) => (rounds > 1 ? null : TOO_LONG) }
}

const MEMBER_FAULTS: readonly {
  readonly fault: MemberFault
  readonly word: string
  readonly claim: string
}[] = [
  {
    fault: 'kill',
    word: 'killed',
    claim:
      'who leads goes on in its term, or is told before another one leads; somebody writes again',
  },
  {
    fault: 'stop',
    word: 'stopped',
    claim:
      'the same, until the member wakes up, which may end sessions that live: who leads then may be told ' +
      'late, and the guard refuses it',
  },
]

/** What fails is the member of etcd that leads, not the leader of the application. */
export function memberArmsOn(ground: Ground): TrialArm[] {
  return MEMBER_FAULTS.flatMap(({ fault, word, claim }) =>
    MEMBER_TTLS_S.map((seconds) => ({
      name: `etcd, three members, its leader ${word}, ttl ${seconds} s`,
      protected: true,
      servers: ['etcd'] as const,
      claim,
      run: memberFaultsOf(ground, { ttlMs: 1000 * seconds, fault }),
      ...inFullOnly(seconds),
    })),
  )
}
