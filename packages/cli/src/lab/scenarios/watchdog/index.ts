/**
 * `watchdog`: does a lease last as long as it is renewed, and is its holder told before it is over
 * when it can be renewed no more?
 *
 * A Redis fails in four ways: nothing gets through, answers come too late, the server stands still,
 * the server is killed. Half of the locks are held with ioredis, half with node-redis, with the
 * options that each has by default.
 */
import type { TrialArm, TrialScenario } from '../../trial.ts'
import { servers } from '../ground/servers.ts'
import { blockedPrograms, blockHolders } from './blocked-loop.ts'
import { checkWatchdog } from './check.ts'
import { dead, hung, loseStore, type StoreFault, silent, slow } from './failing-store.ts'
import { hold, holdByHand, holdForLong } from './holder.ts'
import { ask, keepForLong } from './long-job.ts'

const ROUNDS_PER_ROUND = 1 / 5

function storeArm(name: string, how: string, fault: StoreFault): TrialArm {
  return {
    name,
    protected: true,
    claim: `${how}: the holder is told before its TTL is over`,
    run: (trial) => loseStore(trial, fault, 'hold'),
  }
}

const arms: readonly TrialArm[] = [
  {
    name: 'long job',
    protected: true,
    claim: 'a job of ten TTLs keeps its lock, and nobody else gets it',
    run: keepForLong,
  },
  {
    name: 'renewed by hand, silent',
    protected: false,
    claim: 'a timer that waits for an error hears none: another one holds the lock, and it goes on',
    run: (trial) => loseStore(trial, silent, 'holdByHand'),
  },
  storeArm('silent', 'nothing gets through to the store or back', silent),
  storeArm('slow', 'answers come two TTLs late', slow),
  storeArm('hung', 'the server stands still', hung),
  storeArm('dead', 'the server is killed', dead),
  {
    name: 'blocked loop',
    protected: true,
    claim:
      'a holder whose own event loop is blocked is told after its TTL, as expected; its first look ' +
      'at the lease throws, and the guard refuses its late write',
    run: (trial) => blockHolders(trial, servers),
  },
]

export const scenario: TrialScenario = {
  kind: 'trials',
  name: 'watchdog',
  claim:
    'A lease is kept as long as it is renewed; a running holder is told before its TTL is over when ' +
    'the store is silent, slow, hung or dead.',
  servers: ['redis', 'postgres'],
  arms,
  metrics: [
    { key: 'toldBeforeTtl', title: 'told\nin time' },
    { key: 'worstMarginMs', title: 'worst margin\nin ms' },
    { key: 'renewals', title: 'renewals' },
    { key: 'grantedToOthers', title: 'granted\nto others' },
    { key: 'heldByTwo', title: 'held by\ntwo at once' },
    { key: 'refusedWrites', title: 'refused\nby store' },
  ],
  armsAtOnce: 3,
  armMsMax: 900_000,
  // Each takes several seconds, however many are held at once.
  plan: (rounds) => ({ rounds: Math.max(2, Math.ceil(rounds * ROUNDS_PER_ROUND)), size: 1 }),
  programs: { hold, holdByHand, holdForLong, ask, ...blockedPrograms(servers) },
  check: checkWatchdog,
}
