/**
 * Locks on a quorum of N independent Redis primaries.
 *
 * Guarantee: while fewer than half of the nodes are away, names are granted, and no name to two owners:
 * a node that may have forgotten a lock does not vote until that lock is over (admission.ts). Tokens
 * are recorded by a quorum that agrees on exactly one (attempt.ts), so they rise over every grant of a
 * name whatever clocks do; clocks carry exclusion alone.
 *
 * Does not guarantee: exclusion where the clock of a node steps, or a node declared durable is not. A
 * guard at the data refuses the older holder then.
 *
 * I1. Every key but the counters and the marker has a TTL in the same command that writes it.
 * I2. One owner is one attempt; what of it may arrive late meets a tombstone.
 * I3. Every answer is taken in, whenever it comes; nothing waits for a node that is silent.
 */
import { clientOptionWarnings } from '../../clients/redis-client-options.ts'
import { assert } from '../../core/assert.ts'
import type {
  AcquireRequest,
  AcquireResult,
  Backend,
  Fenced,
  Grant,
  LockInfo,
  RenewResult,
  RevokeOptions,
} from '../../core/backend.ts'
import type { Capabilities } from '../../core/capabilities.ts'
import { BackendUnavailableError, InvalidArgumentError, type LockError } from '../../core/errors.ts'
import type { Warning } from '../../core/events.ts'
import { TTL_MS_MIN } from '../../core/options.ts'
import { onAdoptSeams, type Seams, systemSeams } from '../../core/seams.ts'
import { started } from '../../core/started.ts'
import { checkToken, TOKEN_MAX } from '../../core/token.ts'
import { Attempts, TOMBSTONE_MS_MIN } from '../../wire/attempts.ts'
import { type LockKeys, markerKey, RedisKeys } from '../../wire/keys.ts'
import { Metadata, padToken } from '../../wire/value.ts'
import { Admission } from './admission.ts'
import { factWarnings, refusalWarning, silenceWarning } from './advice.ts'
import { Attempt, type AttemptEnds, type Question } from './attempt.ts'
import { Census, type NodeFacts } from './census.ts'
import { Endings, unknownOwner } from './ending.ts'
import { Held, Holdings } from './held.ts'
import { RedlockLooking } from './looking.ts'
import { quorumOf, setIdOf } from './marker.ts'
import { NodePort } from './node-port.ts'
import { type RedlockNode, type RedlockOptions, readNodes, readRedlockOptions } from './options.ts'
import { proclaimAgain, proclaimOn, raiseOn } from './proclaiming.ts'
import { Renewal } from './renewal.ts'
import { ACQUIRE } from './scripts/acquire.ts'
import { REVOKE } from './scripts/revoke.ts'
import type { Voters } from './voters.ts'
import { NodeWakeUps } from './wake-ups.ts'

/** Limits that tests change; the public factory has no such option. */
export type RedlockLimits = Readonly<{ ttlMsMin?: number; tombstonesMax?: number }>

/**
 * Locks on a quorum of independent Redis primaries, through clients of yours by node name: ioredis 5
 * or 6, node-redis 5 or 6. The clients are neither opened nor closed here. The names are the set of
 * nodes, which the nodes remember: programs with another set are refused, and nothing is written.
 *
 * Nodes without data vote after one `maxTtlMs`, so the first lock of a key prefix waits for so long,
 * unless `onEmpty` says otherwise.
 *
 * @throws InvalidArgumentError when `nodes` is no object of clients, or an option is wrong.
 */
export function redlockBackend(
  nodes: Readonly<Record<string, RedlockNode>>,
  options: RedlockOptions = {},
): Backend {
  return redlockBackendWith(systemSeams, nodes, options)
}

export function redlockBackendWith(
  seams: Seams,
  nodes: Readonly<Record<string, RedlockNode>>,
  options: RedlockOptions = {},
  limits: RedlockLimits = {},
): Backend {
  return new RedlockBackend(seams, nodes, options, limits)
}

class RedlockBackend implements Backend, Voters {
  readonly capabilities: Capabilities
  warn?: (warning: Warning) => void
  readonly wakeUp?: (lockName: string, signal: AbortSignal) => Promise<void>
  readonly ports: readonly NodePort[]
  readonly quorum: number
  readonly admission: Admission
  readonly nodeTimeoutMs: number | null
  #seams: Seams
  readonly #keys: RedisKeys
  readonly #marker: string
  readonly #metadata = new Metadata()
  readonly #source: string
  readonly #attempts: Attempts
  readonly #holdings = new Holdings()
  readonly #endings: Endings
  readonly #census: Census
  readonly #looking: RedlockLooking
  readonly #wakeUps: NodeWakeUps
  readonly #warned = new Set<string>()
  #hasToldOptions = false

  constructor(
    seams: Seams,
    nodes: Readonly<Record<string, RedlockNode>>,
    options: RedlockOptions,
    limits: RedlockLimits,
  ) {
    const settings = readRedlockOptions(options)
    const { keyPrefix, sourceId, maxTtlMs, onEmpty } = settings
    const given = readNodes(nodes)
    const now = (): Seams => this.#seams
    this.#seams = seams
    this.nodeTimeoutMs = settings.nodeTimeoutMs
    this.quorum = quorumOf(given.length)
    this.#keys = new RedisKeys(keyPrefix, false)
    this.#marker = markerKey(keyPrefix)
    this.#source = `redlock:${keyPrefix}${sourceId}`
    this.#attempts = new Attempts(limits.tombstonesMax)
    const events = {
      onSuspect: (port: NodePort) => this.#warnOf(`silent ${port.name}`, silenceWarning(port)),
      onInterrupted: (port: NodePort) => this.#census.forget(port.index),
    }
    this.ports = given.map((node, index) => new NodePort(node, index, now, events))
    const names = given.map(({ name }) => name)
    const rules = { keyPrefix, setId: setIdOf(names), names, maxTtlMs, onEmpty, isForced: false }
    this.admission = new Admission(now, this.ports, rules)
    this.#census = new Census(this.ports, this.quorum, this.#keys.lock(''), now, {
      onFacts: (port, facts) => this.#onFacts(port, facts),
      onRefused: (port, refusal) =>
        this.#warnOf(`refused ${port.name}`, refusalWarning(port.name, refusal)),
    })
    this.#endings = new Endings(this, this.#attempts, this.#holdings)
    this.#looking = new RedlockLooking(this, this.#keys)
    this.#wakeUps = new NodeWakeUps(this.ports, this.#keys, now)
    const { canWake } = this.#wakeUps
    if (canWake) this.wakeUp = (lockName, signal) => this.#wakeUps.sleep(lockName, signal)
    this.capabilities = {
      scope: 'network',
      fencing: 'quorum',
      expiry: 'wall-clock',
      lossNotice: 'before',
      order: 'queue-per-process',
      wakeUp: canWake ? 'push' : 'poll',
      ttlMsMin: limits.ttlMsMin ?? TTL_MS_MIN,
      ttlMsMax: maxTtlMs,
    }
    onAdoptSeams(this, (adopted) => {
      this.#seams = adopted
    })
  }

  seams(): Seams {
    return this.#seams
  }

  refusalOf(node: number): ReturnType<Census['refusalOf']> {
    return this.#census.refusalOf(node)
  }

  tryAcquire(request: AcquireRequest): Promise<AcquireResult> {
    return started(() => {
      const sentAtMs = this.#seams.nowMs()
      const learning = this.#census.settled()
      if (learning === null) return this.#acquire(request, sentAtMs)
      return learning.then(() => this.#acquire(request, sentAtMs))
    })
  }

  #acquire(request: AcquireRequest, sentAtMs: number): Promise<AcquireResult> {
    const { lockName, waits, waiter } = request
    const { held, args } = this.#begin(request, sentAtMs, request.lockDelayMs)
    const { lock, cancelStart, counter, want } = held.keys
    const keys = [lock, cancelStart + held.owner, counter, this.#marker]
    if (waits) {
      this.#wakeUps.rememberWaiter(lockName, waiter)
      keys.push(want)
      args.push(waiter)
    }
    return this.#attempt(held, { script: ACQUIRE, keys, args }, this.#acquireEnds)
  }

  /** New nodes are let vote in a few round trips: the first of all callers need not fail for that. */
  #admitted(error: LockError): Promise<boolean> | null {
    if (!isForgetful(error)) return null
    return this.admission.settled().then(() => this.admission.explain([]) === null)
  }

  async renew(grant: Grant, ttlMs: number): Promise<RenewResult> {
    const held = this.#holdings.get(grant.owner) ?? this.#heldElsewhere(grant)
    if (held.owedValue !== null) proclaimAgain(this, held)
    return new Renewal(this, held, this.#marker, ttlMs, this.#endings).result
  }

  release(grant: Grant, keepForMs: number): Promise<'released' | 'not-held'> {
    const unknown = unknownOwner(grant.owner, this.#keysOf(grant.lockName), grant.ttlMs)
    return this.#endings.release(this.#holdings.get(grant.owner), unknown, keepForMs)
  }

  cancel(lockName: string, owner: string): Promise<void> {
    const unknown = unknownOwner(owner, this.#keysOf(lockName))
    return this.#endings.cancel(this.#holdings.get(owner), unknown)
  }

  proclaim({ lockName, owner }: Fenced, value: string): Promise<'proclaimed' | 'not-held'> {
    return started(() =>
      proclaimOn(this, this.#keysOf(lockName).lock, owner, value, this.#holdings.get(owner)),
    )
  }

  async inspect(lockName: string): Promise<LockInfo | null> {
    return (await this.#looking.inspect(lockName))?.info ?? null
  }

  list(prefix: string, limit: number): AsyncIterable<LockInfo> {
    return this.#looking.list(prefix, limit)
  }

  async revoke(request: AcquireRequest, seen: RevokeOptions): Promise<Grant | null> {
    const sentAtMs = this.#seams.nowMs()
    const stands = await this.#looking.inspect(request.lockName)
    // The operator's own entry is met by a repeat of the request.
    if (stands === null) return null
    if (stands.id !== request.owner && !isSeen(stands.info, seen)) return null
    await this.#census.settled()
    const { held, args } = this.#begin(request, sentAtMs, 0)
    const [ttl = '', setId = '', runId = '', floor = '', metadata = ''] = args
    const { lock, cancelStart, counter } = held.keys
    const token = padToken(stands.info.fencingToken ?? 0n)
    const result = await this.#attempt(
      held,
      {
        script: REVOKE,
        keys: [lock, cancelStart + held.owner, counter, this.#marker, cancelStart],
        args: [
          ...[held.owner, stands.id, token, ttl, setId, runId, floor, metadata],
          String(TOMBSTONE_MS_MIN),
        ],
      },
      this.#revokeEnds,
    )
    return result.kind === 'granted' ? result.grant : null
  }

  async raise(lockName: string, fencingTokenMin: bigint): Promise<void> {
    checkToken(fencingTokenMin, 'fencingTokenMin')
    if (fencingTokenMin === TOKEN_MAX) {
      throw new InvalidArgumentError('fencingTokenMin', fencingTokenMin, 'a token below 2^63 - 1')
    }
    const { counter } = this.#keysOf(lockName)
    const raise = (): Promise<void> => raiseOn(this, [counter, this.#marker], fencingTokenMin)
    await raise().catch(async (error: LockError) => {
      if (!isForgetful(error)) throw error
      await this.admission.settled()
      await raise()
    })
  }

  async close(): Promise<void> {
    this.#wakeUps.close()
    this.admission.close()
    for (const port of this.ports) port.close()
  }

  /** Of every request that may grant something. */
  #begin(request: AcquireRequest, sentAtMs: number, lockDelayMs: number): Begun {
    this.#census.check()
    assert(Number.isSafeInteger(request.ttlMs) && request.ttlMs > 0, 'the engine checks ttlMs')
    if (this.#attempts.isFull(this.#seams.nowMs())) {
      throw new BackendUnavailableError('backlog', 'too many attempts had to be undone of late')
    }
    if (this.warn !== undefined && !this.#hasToldOptions) this.#tellOptions()
    const { lockName, holder, ttlMs } = request
    const metadata = this.#metadata.of(holder, lockDelayMs)
    const { setId, runId } = this.admission.expected()
    const floor = String(Math.floor(this.#seams.wallMs() * 1000))
    const keys = this.#keysOf(lockName)
    const held = new Held(request, keys, metadata, sentAtMs, this.ports.length)
    return { held, args: [String(ttlMs), setId, runId, floor, metadata] }
  }

  #attempt(held: Held, question: Question, ends: AttemptEnds): Promise<AcquireResult> {
    this.#holdings.add(held)
    return new Attempt(this, held, question, this.#source, ends).result
  }

  /** A lease that this process did not acquire, or has given up: the nodes tell. */
  #heldElsewhere({ lockName, owner, ttlMs, fencingToken }: Grant): Held {
    const kept = { lockName, owner, ttlMs, onLost: () => undefined }
    const keys = this.#keysOf(lockName)
    const held = new Held(kept, keys, null, this.#seams.nowMs(), this.ports.length)
    held.phase = 'held'
    held.token = fencingToken
    // Unknown is not over: until a node says no, its silence ends nothing.
    for (const share of held.shares) share.untilMs = held.sentAtMs
    return held
  }

  readonly #acquireEnds: AttemptEnds = {
    giveUp: (held: Held) => this.#endings.giveUp(held),
    undoLate: (held: Held, node: number) => this.#endings.undoLate(held, node),
    learn: (node: number, lockName: string, sent: string) =>
      this.#wakeUps.learn(node, lockName, sent),
    mayVoteNow: (error) => this.#admitted(error),
  }

  readonly #revokeEnds: AttemptEnds = { ...this.#acquireEnds, mayVoteNow: () => null }

  #keysOf(lockName: string): LockKeys {
    const keys = this.#keys.of(lockName)
    assert(keys !== null, 'a node is no cluster')
    return keys
  }

  #onFacts(port: NodePort, facts: NodeFacts): void {
    this.#wakeUps.learn(port.index, '', facts.keyAsSent)
    for (const warning of factWarnings(port.name, facts)) {
      this.#warnOf(`${warning.code} ${port.name}`, warning)
    }
  }

  #tellOptions(): void {
    this.#hasToldOptions = true
    for (const { name, settings, scripts } of this.ports) {
      for (const warning of clientOptionWarnings(settings.client, scripts.family)) {
        this.#warnOf(`${warning.option} ${name}`, {
          ...warning,
          advice: `node "${name}": ${warning.advice}`,
        })
      }
    }
  }

  /** Each thing once. */
  #warnOf(key: string, warning: Warning | null): void {
    if (warning === null || this.warn === undefined || this.#warned.has(key)) return
    this.#warned.add(key)
    this.warn(warning)
  }
}

/** Whether a node did not vote because it may have forgotten locks, as each does that is new. */
function isForgetful({ votes = [] }: LockError): boolean {
  return votes.some(
    ({ cause }) => cause instanceof BackendUnavailableError && cause.why === 'no-quorum',
  )
}

type Begun = Readonly<{ held: Held; args: string[] }>

function isSeen(info: LockInfo, seen: RevokeOptions): boolean {
  if ('foreignOwner' in seen && seen.foreignOwner !== undefined) {
    return info.foreignOwner === seen.foreignOwner
  }
  return info.fencingToken === (seen as { fencingToken: bigint }).fencingToken
}
