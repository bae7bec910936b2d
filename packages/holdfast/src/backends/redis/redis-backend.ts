/**
 * Locks on one Redis primary, or on the primaries of a Redis Cluster.
 *
 * Guarantee: every change of a lock is one script, so a process that dies between two steps leaves
 * nothing that does not end by itself, and no two requests interleave. Tokens rise over every grant
 * of a name while the data are kept, or while the server's clock goes forward (scripts/next-token.ts).
 *
 * Does not guarantee: exclusion over lost data. Replication is asynchronous, so after a failover to a
 * replica that had not got the lock, after a flush or an eviction, a second holder is possible for up
 * to one TTL. Expiry follows the server's wall clock: a step forward ends locks early. In each case
 * tokens still rise, and a guard at the data refuses the older holder.
 *
 * I1. Every key but the counters has a TTL in the same command that writes it.
 * I2. An owner with a tombstone is never granted anything.
 * I3. `sentAtMs` is read before a request is given to the client, so before it is queued.
 */

import { type RedisClient, type RedisScripts, scriptsOf, unchanged } from '../../clients/redis.ts'
import { subscriberOf } from '../../clients/redis-subscriber.ts'
import { aborted, RedisWakeUps } from '../../clients/redis-wake-ups.ts'
import { assert } from '../../core/assert.ts'
import type {
  AcquireRequest,
  AcquireResult,
  Backend,
  Fenced,
  Grant,
  HandOverResult,
  LockInfo,
  RenewResult,
  RevokeOptions,
} from '../../core/backend.ts'
import type { Capabilities } from '../../core/capabilities.ts'
import {
  BackendUnavailableError,
  InvalidArgumentError,
  type LossReason,
} from '../../core/errors.ts'
import type { Warning } from '../../core/events.ts'
import { onAdoptSeams, type Seams, systemSeams } from '../../core/seams.ts'
import { started } from '../../core/started.ts'
import { checkToken, parseToken, TOKEN_MAX } from '../../core/token.ts'
import { Attempts, type Pending, TOMBSTONE_MS_MIN } from '../../wire/attempts.ts'
import { type LockKeys, RedisKeys } from '../../wire/keys.ts'
import { failAsNotSent, failureOf, releasedOf, textsOf, tokenOf } from '../../wire/replies.ts'
import {
  holderOf,
  Metadata,
  ownerMark,
  padToken,
  proclaimed,
  VALUE_BYTES_MAX,
} from '../../wire/value.ts'
import { gated } from './admission.ts'
import { Advice, type ServerFacts } from './advice.ts'
import { RedisLooking } from './looking.ts'
import { type RedisOptions, readRedisOptions } from './options.ts'
import { confirmed } from './replicas.ts'
import { ACQUIRE } from './scripts/acquire.ts'
import { CANCEL } from './scripts/cancel.ts'
import { HAND_OVER } from './scripts/hand-over.ts'
import { AWAIT, FACTS } from './scripts/look.ts'
import { PROCLAIM } from './scripts/proclaim.ts'
import { RAISE } from './scripts/raise.ts'
import { RELEASE, REST } from './scripts/release.ts'
import { RENEW } from './scripts/renew.ts'
import { REVOKE } from './scripts/revoke.ts'

/** Forgetting one costs a mark that reads as another process's, for 2 s at most. */
const WAITERS_MAX = 1000
const REFUSED: AcquireResult = { kind: 'held', retryAfterMs: null, holder: null }

/** Limits that tests change; the public factory has no such option. */
export type RedisLimits = Readonly<{ ttlMsMin?: number; tombstonesMax?: number }>

/**
 * Locks on one Redis primary or on a Redis Cluster, through a client of yours: ioredis 5 or 6,
 * node-redis 5 or 6; RESP 2 or 3. Tested on Redis 7.0. The client is neither opened nor closed here.
 *
 * @throws InvalidArgumentError when `client` is of neither family, or an option is wrong.
 */
export function redisBackend(client: RedisClient, options: RedisOptions = {}): Backend {
  return redisBackendWith(systemSeams, client, options)
}

export function redisBackendWith(
  seams: Seams,
  client: RedisClient,
  options: RedisOptions = {},
  limits: RedisLimits = {},
): Backend {
  return new RedisBackend(seams, client, options, limits)
}

class RedisBackend implements Backend {
  readonly capabilities: Capabilities
  warn?: (warning: Warning) => void
  readonly wakeUp?: (lockName: string, signal: AbortSignal) => Promise<void>
  #seams: Seams
  readonly #scripts: RedisScripts
  readonly #keys: RedisKeys
  readonly #metadata = new Metadata()
  readonly #source: string
  readonly #looking: RedisLooking
  readonly #attempts: Attempts
  readonly #advice: Advice
  readonly #wakeUps: RedisWakeUps | null
  /** Who was refused last and waits, by lock name: whoever subscribes for it leaves that mark. */
  readonly #waiters = new Map<string, string>()

  constructor(seams: Seams, client: RedisClient, options: RedisOptions, limits: RedisLimits) {
    const scripts = scriptsOf(client)
    const settings = readRedisOptions(options, scripts.isCluster)
    const { keyPrefix, sourceId, subscriber } = settings
    this.#seams = seams
    this.#scripts = gated(scripts, settings, () => this.#seams)
    this.#keys = new RedisKeys(keyPrefix, scripts.isCluster)
    this.#source = `redis:${keyPrefix}${sourceId}`
    this.#looking = new RedisLooking(this.#scripts, this.#keys)
    this.#attempts = new Attempts(limits.tombstonesMax)
    this.#advice = new Advice(client, this.#scripts.family, (lockName) => this.#askFacts(lockName))
    const open = subscriberOf(client, this.#scripts.family, subscriber)
    this.#wakeUps =
      open &&
      new RedisWakeUps(
        open,
        () => this.#seams,
        (channel) => this.#isTaken(channel),
      )
    if (open) this.wakeUp = (lockName, signal) => this.#sleep(lockName, signal)
    this.capabilities = {
      scope: 'network',
      fencing: 'forward-clock',
      expiry: 'wall-clock',
      lossNotice: 'before',
      order: 'queue-per-process',
      wakeUp: open ? 'push' : 'poll',
      ttlMsMin: limits.ttlMsMin ?? settings.ttlMsMin,
      ttlMsMax: settings.ttlMsMax,
    }
    confirmed(this, client, scripts.family, settings)
    onAdoptSeams(this, (given) => {
      this.#seams = given
    })
  }

  tryAcquire(request: AcquireRequest): Promise<AcquireResult> {
    return started(() => {
      const sent = this.#begin(request)
      const keys = this.#keys.of(request.lockName)
      if (keys !== null) return this.#acquire(request, sent, keys)
      return this.#learnKeys(request.lockName).then(
        (learnt) => this.#acquire(request, sent, learnt),
        (error) => {
          throw this.#failed(sent, error)
        },
      )
    })
  }

  #acquire(
    { lockName, owner, ttlMs, holder, lockDelayMs, waits, waiter }: AcquireRequest,
    sent: Pending,
    { lock, counter, want, cancelStart }: LockKeys,
  ): Promise<AcquireResult> {
    if (waits) this.#rememberWaiter(lockName, waiter)
    const tombstone = cancelStart + owner
    const ttl = String(ttlMs)
    const metadata = this.#metadata.of(holder, lockDelayMs)
    return this.#scripts.run(
      ACQUIRE,
      // Each in one piece: a list that is added to grows by more than it needs.
      waits ? [lock, tombstone, counter, want] : [lock, tombstone, counter],
      waits ? [ttl, metadata, waiter] : [ttl, metadata],
      (reply) => this.#readAcquired(sent, reply),
      (error) => this.#failed(sent, error),
    )
  }

  #readAcquired(sent: Pending, reply: unknown): AcquireResult {
    this.#answered(sent)
    const { lockName, ttlMs } = sent
    if (!Array.isArray(reply)) return this.#granted(sent, reply, ttlMs)
    const [kind = '', second = '', third = '', fourth = '', token = ''] = textsOf(reply)
    if (kind === 'held') {
      this.#keys.learn(lockName, fourth)
      const held = holderOf(third)
      // A name that rests is nobody's, though its value still has the last holder's token.
      const fencingToken = held && parseToken(token)
      return { kind: 'held', retryAfterMs: Number(second), holder: held, fencingToken }
    }
    if (kind === 'cancelled') return REFUSED
    if (kind !== 'again') throw failureOf([kind, second, third])
    // What is left counts from the second execution, which `sentAtMs` is before as well.
    const lifeMs = Math.min(ttlMs, Number(third))
    return this.#granted(sent, second, lifeMs)
  }

  async handOver(
    grant: Grant,
    next: AcquireRequest,
    evenIfWanted: boolean,
  ): Promise<HandOverResult> {
    assert(next.lockName === grant.lockName, 'a hand-over stays on one name')
    const { lockName, owner, ttlMs, holder, lockDelayMs } = next
    const { lock, want, counter, cancelStart } =
      this.#keys.of(lockName) ?? (await this.#learnKeys(lockName))
    const keys = [lock, want, counter, cancelStart + owner, cancelStart + grant.owner]
    const args = [
      ownerMark(grant.owner),
      owner,
      String(ttlMs),
      this.#metadata.of(holder, lockDelayMs),
    ]
    args.push(next.waiter, evenIfWanted ? '1' : '0')
    const sent = this.#begin(next)
    const failed = (error: unknown) => this.#failed(sent, error)
    const reply = await this.#scripts.run(HAND_OVER, keys, args, textsOf, failed)
    this.#answered(sent)
    const [kind = '', token = '', wanted = '', left = ''] = reply
    if (kind === 'freed' || kind === 'not-held') return { kind }
    if (kind !== 'handed-over' && kind !== 'again') throw failureOf([kind])
    const lifeMs = kind === 'again' ? Math.min(ttlMs, Number(left)) : ttlMs
    const answer = this.#granted(sent, token, lifeMs)
    if (answer.kind === 'held') return { kind: 'freed' }
    return { kind: 'handed-over', grant: answer.grant, wanted: wanted === '1' }
  }

  async renew({ lockName, owner, fencingToken }: Grant, ttlMs: number): Promise<RenewResult> {
    const lock = this.#keys.lock(lockName)
    const args = [ownerMark(owner), String(ttlMs), padToken(fencingToken)]
    const sentAtMs = this.#seams.nowMs()
    const answer = await this.#scripts.run(RENEW, [lock], args, String)
    if (answer === 'renewed') return { kind: 'renewed', sentAtMs, ttlMs }
    return { kind: 'lost', reason: answer as LossReason }
  }

  release(grant: Grant, keepForMs: number): Promise<'released' | 'not-held'> {
    const keys = this.#keys.of(grant.lockName)
    if (keys !== null) return this.#release(grant.owner, keys, keepForMs)
    const learnt = this.#learnKeys(grant.lockName)
    return learnt.then((keys) => this.#release(grant.owner, keys, keepForMs))
  }

  #release(
    owner: string,
    { lock, want, cancelStart }: LockKeys,
    keepForMs: number,
  ): Promise<'released' | 'not-held'> {
    const mark = ownerMark(owner)
    if (keepForMs === 0) return this.#scripts.run(RELEASE, [lock, want], [mark], releasedOf)
    const rest = String(Math.ceil(keepForMs))
    return this.#scripts.run(REST, [lock, cancelStart + owner], [mark, rest], releasedOf)
  }

  async cancel(lockName: string, owner: string): Promise<void> {
    const { lock, want, cancelStart } = this.#keys.of(lockName) ?? (await this.#learnKeys(lockName))
    const lifeMs = this.#attempts.cancelled(owner, this.#seams.nowMs())
    const keys = [lock, want, cancelStart + owner]
    await this.#scripts.run(CANCEL, keys, [ownerMark(owner), String(lifeMs)], unchanged)
  }

  async proclaim({ lockName, owner }: Fenced, value: string): Promise<'proclaimed' | 'not-held'> {
    const lock = this.#keys.lock(lockName)
    const args = [ownerMark(owner), proclaimed(value), String(VALUE_BYTES_MAX)]
    const answer = await this.#scripts.run(PROCLAIM, [lock], args, String)
    if (answer === 'too-long') {
      throw new InvalidArgumentError('value', value, 'text that fits beside the label')
    }
    return answer === 'proclaimed' ? 'proclaimed' : 'not-held'
  }

  inspect(lockName: string): Promise<LockInfo | null> {
    return this.#looking.inspect(lockName)
  }

  list(prefix: string, limit: number): AsyncIterable<LockInfo> {
    const learn = async () => this.#keys.of(prefix) ?? (await this.#learnKeys(prefix))
    return this.#looking.list(prefix, limit, learn)
  }

  async revoke(request: AcquireRequest, seen: RevokeOptions): Promise<Grant | null> {
    const { lockName, owner, ttlMs, holder } = request
    const { lock, counter, cancelStart } =
      this.#keys.of(lockName) ?? (await this.#learnKeys(lockName))
    const wanted =
      'foreignOwner' in seen && seen.foreignOwner !== undefined
        ? await this.#looking.digestOf(lockName, seen.foreignOwner)
        : padToken((seen as { fencingToken: bigint }).fencingToken)
    if (wanted === null) return null
    const keys = [lock, cancelStart + owner, counter, cancelStart]
    const args = [
      owner,
      wanted,
      String(ttlMs),
      this.#metadata.of(holder, 0),
      String(TOMBSTONE_MS_MIN),
    ]
    const sent = this.#begin(request)
    const failed = (error: unknown) => this.#failed(sent, error)
    const reply = await this.#scripts.run(REVOKE, keys, args, textsOf, failed)
    this.#answered(sent)
    const [kind = '', token = '', left = '', delay = ''] = reply
    if (kind === 'gone' || kind === 'cancelled') return null
    if (kind !== 'revoked') throw failureOf([kind])
    const lifeMs = Math.max(1, Number(left) - Number(delay))
    const answer = this.#granted(sent, token, lifeMs)
    return answer.kind === 'granted' ? answer.grant : null
  }

  async raise(lockName: string, fencingTokenMin: bigint): Promise<void> {
    checkToken(fencingTokenMin, 'fencingTokenMin')
    if (fencingTokenMin === TOKEN_MAX) {
      throw new InvalidArgumentError('fencingTokenMin', fencingTokenMin, 'a token below 2^63 - 1')
    }
    const { counter } = this.#keys.of(lockName) ?? (await this.#learnKeys(lockName))
    await this.#scripts.run(RAISE, [counter], [fencingTokenMin.toString()], unchanged)
  }

  async close(): Promise<void> {
    this.#wakeUps?.close()
  }

  /** I3. Of every request that may grant something. */
  #begin(request: AcquireRequest): Pending {
    assert(Number.isSafeInteger(request.ttlMs) && request.ttlMs > 0, 'the engine checks ttlMs')
    const sentAtMs = this.#seams.nowMs()
    if (this.#attempts.isFull(sentAtMs)) {
      throw new BackendUnavailableError('backlog', 'too many attempts had to be undone of late')
    }
    if (this.warn !== undefined) this.#advice.beforeRequest(this.warn)
    return this.#attempts.sent(request, sentAtMs)
  }

  #answered(sent: Pending): void {
    if (this.warn !== undefined) this.#advice.afterAnswer(this.warn, sent.lockName)
    this.#attempts.answered(sent)
  }

  #failed(sent: Pending, error: unknown): unknown {
    // Of an attempt that may still arrive the TTL is needed for its tombstone.
    if (error instanceof BackendUnavailableError) this.#attempts.answered(sent)
    return error
  }

  #granted(sent: Pending, token: unknown, ttlMs: number): AcquireResult {
    // I2. The cancel undoes the grant, or will: if it fails, whoever sent it goes on trying.
    if (sent.isCancelled) return REFUSED
    const fencingToken = tokenOf(token)
    assert(fencingToken !== null, 'a grant comes with a token')
    const { lockName, owner, sentAtMs } = sent
    const source = this.#source
    return {
      kind: 'granted',
      grant: { lockName, owner, fencingToken, source, ttlMs, sentAtMs },
    }
  }

  #rememberWaiter(lockName: string, waiter: string): void {
    // Without a sleeper nobody subscribes.
    if (this.#wakeUps === null) return
    if (this.#waiters.size >= WAITERS_MAX && !this.#waiters.has(lockName)) this.#waiters.clear()
    this.#waiters.set(lockName, waiter)
  }

  /** In a cluster keys depend on the client's prefix: the store is asked for it before all else. */
  async #learnKeys(lockName: string): Promise<LockKeys> {
    await this.#askFacts(lockName).catch(failAsNotSent)
    const keys = this.#keys.of(lockName)
    assert(keys !== null, 'the store has told what the client puts before keys')
    return keys
  }

  async #sleep(lockName: string, signal: AbortSignal): Promise<void> {
    if (this.#keys.clientPrefix === null) {
      // Usually a refusal has told it. A store that cannot tell cannot wake anybody either.
      await this.#askFacts(lockName).catch(() => {})
    }
    const { clientPrefix } = this.#keys
    if (this.#wakeUps === null || clientPrefix === null) return aborted(signal)
    // The channel of a name is its key as the server gets it, with no other prefix.
    return this.#wakeUps.sleep(clientPrefix + this.#keys.lock(lockName), signal)
  }

  /** Whether the lock of a channel is taken; if so, the mark is left again. */
  async #isTaken(channel: string): Promise<boolean> {
    const lockName = channel.slice(`${this.#keys.clientPrefix}${this.#keys.prefix}`.length)
    const { lock, want } = this.#keys.of(lockName) ?? (await this.#learnKeys(lockName))
    const waiter = this.#waiters.get(lockName) ?? ''
    return (await this.#scripts.run(AWAIT, [lock, want], [waiter], Number)) === 1
  }

  async #askFacts(lockName: string): Promise<ServerFacts> {
    const lock = this.#keys.lock(lockName)
    const facts = await this.#scripts.run(FACTS, [lock], [], textsOf)
    const [sent = '', policy = '', writes] = facts
    this.#keys.learn(lockName, sent)
    return { policy, isWritableReplica: writes === 'writable' }
  }
}
