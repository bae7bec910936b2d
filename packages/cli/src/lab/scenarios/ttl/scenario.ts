/**
 * `ttl`: what a longer TTL costs, and what it buys. After a crash everybody waits for it; and every pause
 * that is longer leaves two at work. With a lock only that costs an update each time, with the guard the
 * late write is refused: then a short TTL costs work that is done again, and no data.
 */
import type { TrialArm, TrialScenario } from '../../trial.ts'
import type { KeeperName } from '../failover/stores.ts'
import type { Ground } from '../ground/ground.ts'
import { TOO_LONG } from '../too-long.ts'
import { checkTtl } from './check.ts'
import { isLong, ttlOf } from './organiser.ts'
import { followOn, holdOn, pauseOnceOn } from './programs.ts'

/** In every run, and where there is time besides. etcd grants no TTL below 2 s. */
interface Ttls {
  readonly alwaysMs: readonly number[]
  readonly longMs: readonly number[]
}

/** The stores are alike in this, so a short run shows the whole trade on one of them. */
const FIRST: Ttls = { alwaysMs: [300, 1_000, 3_000], longMs: [10_000, 30_000] }
const TTLS: Readonly<Record<KeeperName, Ttls>> = {
  sqlite: FIRST,
  redis: FIRST,
  'redlock of 3': { alwaysMs: [1_000], longMs: [300, 3_000, 10_000, 30_000] },
  'etcd, one member': { alwaysMs: [2_000], longMs: [3_000, 10_000, 30_000] },
  'etcd, three members': { alwaysMs: [2_000], longMs: [3_000, 10_000, 30_000] },
}
const ROUNDS_PER_ROUND = 1 / 20
/** Fewer would leave the TTLs without a pause that lies between them. */
const ROUNDS_MIN = 8

export function ttlOn(ground: Ground, keepers: readonly KeeperName[]): TrialScenario {
  return {
    kind: 'trials',
    name: 'ttl',
    claim:
      'A longer TTL keeps everybody waiting for longer after a crash, and fewer pauses outlast it. With a ' +
      'lock only each of those loses an update; with lock and guard each is refused, at every TTL.',
    servers: ground.serversFor.wallets,
    arms: keepers.flatMap((keeper) =>
      ttlsOf(keeper).flatMap((ttlMs) => [
        armOf(ground, keeper, ttlMs, true),
        armOf(ground, keeper, ttlMs, false),
      ]),
    ),
    metrics: [
      { key: 'ttlMs', title: 'ttl\nms' },
      { key: 'grantedTtlMs', title: 'granted\nms' },
      { key: 'recoveryP50Ms', title: 'crash:\np50 ms' },
      { key: 'recoveryMaxMs', title: 'longest\nms' },
      { key: 'pauses', title: 'pauses' },
      { key: 'overlaps', title: 'longer than\nthe lock' },
      { key: 'lostUpdates', title: 'lost\nupdates' },
      { key: 'refused', title: 'refused\nby guard' },
    ],
    // Nearly all of the time nobody does anything.
    armsAtOnce: 10,
    armMsMax: 600_000,
    plan: (rounds) => ({
      rounds: Math.max(ROUNDS_MIN, Math.ceil(rounds * ROUNDS_PER_ROUND)),
      size: 1,
    }),
    programs: {
      pauseOnce: pauseOnceOn(ground),
      hold: holdOn(ground),
      follow: followOn(ground),
    },
    check: checkTtl,
  }
}

function ttlsOf(keeper: KeeperName): number[] {
  const { alwaysMs, longMs } = TTLS[keeper]
  return [...alwaysMs, ...longMs].sort((a, b) => a - b)
}

function isEtcd(keeper: KeeperName): boolean {
  return keeper.startsWith('etcd')
}

function armOf(ground: Ground, keeper: KeeperName, ttlMs: number, isBare: boolean): TrialArm {
  const ttl = ttlMs < 1_000 ? `${ttlMs} ms` : `${ttlMs / 1_000} s`
  const arm = {
    name: `${keeper}, ${isBare ? 'lock only' : 'lock + guard'}, ttl ${ttl}`,
    protected: !isBare,
    ...(isEtcd(keeper) && { servers: ['etcd'] as const }),
    claim: isBare
      ? 'whoever’s pause outlasts the lock writes over the next holder’s update, and nobody else does'
      : 'whoever’s pause outlasts the lock is refused, all others are not, and no update is lost',
    run: ttlOf(ground, { keeper, ttlMs, isBare }),
  }
  if (TTLS[keeper].alwaysMs.includes(ttlMs)) return arm
  return { ...arm, obstacle: async ({ rounds }) => (isLong(rounds) ? null : TOO_LONG) }
}
