import { checkSubscriber, type RedisSubscriber } from '../../clients/redis-subscriber.ts'
import type { Options } from '../../core/backend.ts'
import { InvalidArgumentError } from '../../core/errors.ts'
import { shortText, whole } from '../../core/option-values.ts'
import { checkNames, TTL_MS_MAX, TTL_MS_MIN } from '../../core/options.ts'

const KEY_PREFIX_DEFAULT = 'lock:'

export type RedisOptions = Options<{
  /**
   * Stands before every key: `lock:` by default; 0 to 64 bytes of UTF-8. Empty where the keys of
   * other programs must be met. It is part of a lease's `source`.
   */
  keyPrefix: string
  /**
   * The connection by which contenders learn of a release: a client of yours that is used for
   * nothing else, or false, and they poll. By default `client.duplicate()`, opened when somebody
   * first waits, and ended by `close()` or with your client.
   */
  subscriber: RedisSubscriber | false
  /**
   * Distinguishes the tokens of this store from those of another with the same prefix, for those
   * who move their locks: up to 64 bytes, empty by default.
   */
  sourceId: string
  /**
   * What follows when Redis came back without its data, or as another server: a restart, a flush, a
   * failover. `fresh`, the default: locks are granted at once, and leases of before may still be in
   * use; their tokens are smaller. `wait`: nothing is granted for one `ttlMsMax`, until they are
   * over; so too before the very first lock of a key prefix. All programs of the prefix need the same.
   * Costs INFO in each acquire, and the right to it. Not for a cluster.
   */
  onEmpty: 'fresh' | 'wait'
  /**
   * The longest TTL of any program with this key prefix, lock delay and minimum hold included; what
   * asks for more is refused, so below 30,000 `createLocks` needs a `ttlMs` of its own. Milliseconds,
   * 100 to 86,400,000. By default 60,000 with
   * `onEmpty: 'wait'`, which waits that long, and else 86,400,000.
   */
  ttlMsMax: number
  /**
   * A lock is granted or renewed only once `count` replicas confirm that they have it, within
   * `timeoutMs`; else it is given back, and the call rejects. `count`: 1 to 100. `timeoutMs`: 1 to
   * 1,000 milliseconds, 100 by default; the connection serves nothing else meanwhile. No `ttlMs` may be
   * shorter than ten times `timeoutMs`: a renewal waits for its answer for a tenth of the TTL. It makes the
   * loss of a lock by a failover less likely; it is no guarantee. Costs one round trip more. Not for a
   * cluster. By default nobody confirms anything.
   */
  replicas: Options<{ count: number; timeoutMs: number }>
}>

const NAMES: readonly string[] = [
  'keyPrefix',
  'subscriber',
  'sourceId',
  'onEmpty',
  'ttlMsMax',
  'replicas',
]

const WAITING_TTL_MS_MAX = 60_000
const REPLICA_COUNT_MAX = 100
const CONFIRMATION_MS_DEFAULT = 100
/** Half of the longest that a request may take. */
const CONFIRMATION_MS_MAX = 1000

/** Of what a renewal takes at most, a tenth of the TTL, the confirmation may take all. */
const CONFIRMATIONS_PER_TTL = 10

export type ReplicasSettings = Readonly<{ count: number; timeoutMs: number }>

export interface RedisSettings {
  readonly keyPrefix: string
  readonly subscriber: RedisSubscriber | false | undefined
  readonly sourceId: string
  readonly onEmpty: 'fresh' | 'wait'
  readonly ttlMsMin: number
  readonly ttlMsMax: number
  readonly replicas: ReplicasSettings | null
}

/**
 * @param isCluster Some options are not for a cluster.
 * @throws InvalidArgumentError naming the first option that is wrong.
 */
export function readRedisOptions(options: RedisOptions, isCluster = false): RedisSettings {
  if (typeof options !== 'object' || options === null || Array.isArray(options)) {
    throw new InvalidArgumentError('options', options, 'an object with options')
  }
  checkNames(options, NAMES)
  const { keyPrefix = KEY_PREFIX_DEFAULT, subscriber, sourceId = '', onEmpty = 'fresh' } = options
  if (onEmpty !== 'fresh' && onEmpty !== 'wait') {
    throw new InvalidArgumentError('onEmpty', onEmpty, "'fresh' or 'wait'")
  }
  if (isCluster && onEmpty === 'wait') {
    throw new InvalidArgumentError('onEmpty', onEmpty, "'fresh', for a client of a cluster")
  }
  const { ttlMsMax: given = onEmpty === 'wait' ? WAITING_TTL_MS_MAX : TTL_MS_MAX } = options
  const ttlMsMax = whole('ttlMsMax', given, TTL_MS_MIN, TTL_MS_MAX)
  const replicas = readReplicas(options.replicas, isCluster)
  const ttlMsMin = Math.max(TTL_MS_MIN, CONFIRMATIONS_PER_TTL * (replicas?.timeoutMs ?? 0))
  if (replicas !== null && ttlMsMin > ttlMsMax) {
    const allowed = `at most a tenth of ttlMsMax (${ttlMsMax})`
    throw new InvalidArgumentError('replicas.timeoutMs', replicas.timeoutMs, allowed)
  }
  return {
    keyPrefix: shortText('keyPrefix', keyPrefix),
    subscriber: checkSubscriber('subscriber', subscriber),
    sourceId: shortText('sourceId', sourceId),
    onEmpty,
    ttlMsMin,
    ttlMsMax,
    replicas,
  }
}

function readReplicas(given: unknown, isCluster: boolean): ReplicasSettings | null {
  if (given === undefined) return null
  if (isCluster) {
    const allowed = 'not given for a cluster, whose nodes confirm each for itself'
    throw new InvalidArgumentError('replicas', given, allowed)
  }
  if (typeof given !== 'object' || given === null || Array.isArray(given)) {
    throw new InvalidArgumentError('replicas', given, 'an object with count and timeoutMs')
  }
  checkNames(given, ['count', 'timeoutMs'], 'replicas.')
  const { count, timeoutMs = CONFIRMATION_MS_DEFAULT } = given as Record<string, unknown>
  return {
    count: whole('replicas.count', count, 1, REPLICA_COUNT_MAX),
    timeoutMs: whole('replicas.timeoutMs', timeoutMs, 1, CONFIRMATION_MS_MAX),
  }
}
