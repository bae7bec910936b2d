/**
 * `failover`: how long nobody leads when the leader is killed, stands still or resigns, and whether anything
 * that the deposed one still writes is accepted. In a bare arm nobody looks at tokens.
 */
import type { TrialArm, TrialScenario } from '../../trial.ts'
import type { Ground } from '../ground/ground.ts'
import { candidateProgram } from './candidates.ts'
import { checkFailover } from './check.ts'
import { type FailoverPlan, failoverOf } from './organiser.ts'

const TTLS_S = [1, 2, 5]

export interface FailoverStore {
  readonly name: string
  readonly nodes: FailoverPlan['nodes']
  readonly faults: FailoverPlan['faults']
}

export function failoverOn(
  ground: Ground,
  stores: readonly FailoverStore[],
  bare: FailoverStore,
): TrialScenario {
  return {
    kind: 'trials',
    name: 'failover',
    claim:
      'When the leader is killed, stands still or resigns, another one leads in a later term; and what ' +
      'the deposed leader still writes is refused.',
    servers: ground.serversFor.wallets,
    arms: [bareArm(ground, bare), ...stores.flatMap((store) => armsOf(ground, store))],
    metrics: [
      { key: 'killedP50Ms', title: 'killed\np50 ms' },
      { key: 'killedMaxMs', title: 'longest\nms' },
      { key: 'stoppedP50Ms', title: 'stopped\np50 ms' },
      { key: 'stoppedMaxMs', title: 'longest\nms' },
      { key: 'resignedP50Ms', title: 'resigned\np50 ms' },
      { key: 'resignedMaxMs', title: 'longest\nms' },
      { key: 'lateWrites', title: 'late\nwrites' },
      { key: 'refusedLate', title: 'refused\nby guard' },
    ],
    // Most of the time nobody does anything but wait for a TTL.
    armsAtOnce: 4,
    armMsMax: 600_000,
    // Each takes two TTLs and more: one for a quick run, ten for a full one.
    plan: (rounds) => ({ rounds: Math.max(1, Math.round((rounds - 100) / 30)), size: 1 }),
    programs: { stand: candidateProgram(ground) },
    check: checkFailover,
  }
}

function bareArm(ground: Ground, { name, nodes, faults }: FailoverStore): TrialArm {
  return {
    name: `bare writes, ${name}, ttl 1 s`,
    protected: false,
    claim: 'nobody looks at terms: the late write of the deposed leader goes over the new one’s',
    run: failoverOf(ground, { nodes, faults, ttlMs: 1000, isBare: true }),
  }
}

function armsOf(ground: Ground, { name, nodes, faults }: FailoverStore): TrialArm[] {
  return TTLS_S.map((seconds) => ({
    name: `${name}, ttl ${seconds} s`,
    protected: true,
    claim:
      'another one leads in a later term, and the guard refuses what the deposed leader writes',
    run: failoverOf(ground, { nodes, faults, ttlMs: 1000 * seconds }),
  }))
}
