/**
 * `watchdog`: does a lease last as long as it is renewed, and is its holder told before it is over
 * when it can be renewed no more?
 *
 * A store fails in four ways: nothing gets through, answers come too late, it stands still, it is
 * gone. What these are is another thing for a server and for a file.
 */
import type { Trial, TrialArm, TrialScenario } from '../../trial.ts'
import type { Ground } from '../ground/ground.ts'
import { blockedPrograms, blockHolders } from './blocked-loop.ts'
import { checkWatchdog } from './check.ts'
import type { OpenJobStore } from './job-store.ts'
import { keepForLong } from './long-job.ts'

const ROUNDS_PER_ROUND = 1 / 5

export const STORE_FAULTS = ['silent', 'slow', 'hung', 'dead'] as const
export type StoreFaultName = (typeof STORE_FAULTS)[number]

/** How one kind of store is held, and how it fails. */
export interface WatchedStore {
  readonly openJob: OpenJobStore
  /** What each of the failures is there. */
  readonly faults: Readonly<Record<StoreFaultName, string>>
  lose(trial: Trial, fault: StoreFaultName, program: 'hold' | 'holdByHand'): Promise<null>
  /** Further arms. */
  readonly more?: readonly TrialArm[]
  readonly programs: TrialScenario['programs']
}

export const CLAIMS: Readonly<Record<'longJob' | 'told' | 'blockedLoop', string>> = {
  longJob: 'a job of ten TTLs keeps its lock, and nobody else gets it',
  told: 'the holder is told before its TTL is over',
  blockedLoop:
    'a holder whose own event loop is blocked is told after its TTL, as expected; its first look ' +
    'at the lease throws, and the guard refuses its late write',
}

function armsOn(ground: Ground, store: WatchedStore): readonly TrialArm[] {
  return [
    {
      name: 'long job',
      protected: true,
      claim: CLAIMS.longJob,
      run: (trial) => keepForLong(trial, store.openJob),
    },
    {
      name: 'renewed by hand, silent',
      protected: false,
      claim:
        'a timer that waits for an error hears none: another one holds the lock, and it goes on',
      run: (trial) => store.lose(trial, 'silent', 'holdByHand'),
    },
    ...STORE_FAULTS.map((fault) => ({
      name: fault,
      protected: true,
      claim: `${store.faults[fault]}: ${CLAIMS.told}`,
      run: (trial: Trial) => store.lose(trial, fault, 'hold'),
    })),
    {
      name: 'blocked loop',
      protected: true,
      claim: CLAIMS.blockedLoop,
      run: (trial) => blockHolders(trial, ground),
    },
    ...(store.more ?? []),
  ]
}

export const watchdogOn = (ground: Ground, store: WatchedStore): TrialScenario => ({
  kind: 'trials',
  name: 'watchdog',
  claim:
    'A lease is kept as long as it is renewed; a running holder is told before its TTL is over when ' +
    'the store is silent, slow, hung or dead.',
  servers: ground.serversFor.wallets,
  arms: armsOn(ground, store),
  metrics: [
    { key: 'toldBeforeTtl', title: 'told\nin time' },
    { key: 'worstMarginMs', title: 'worst margin\nin ms' },
    { key: 'grantedTtlMs', title: 'granted\nttl ms' },
    { key: 'renewals', title: 'renewals' },
    { key: 'grantedToOthers', title: 'granted\nto others' },
    { key: 'heldByTwo', title: 'held by\ntwo at once' },
    { key: 'refusedWrites', title: 'refused\nby store' },
  ],
  armsAtOnce: 4,
  armMsMax: 900_000,
  // Each takes several seconds, however many are held at once.
  plan: (rounds) => ({ rounds: Math.max(2, Math.ceil(rounds * ROUNDS_PER_ROUND)), size: 1 }),
  programs: { ...store.programs, ...blockedPrograms(ground) },
  check: checkWatchdog,
})
