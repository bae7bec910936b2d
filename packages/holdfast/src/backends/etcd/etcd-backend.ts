/**
 * Locks in etcd: a queue for each name, in which every contender has a place, and the first holds it.
 *
 *     place: a key bound to a session ─▶ the oldest place of a name holds ─▶ its create_revision is the token
 *
 * Guarantees: exclusion and rising tokens as long as etcd keeps its data, whichever members fail, and
 * with Go programs that lock the same name by `concurrency.Mutex` or `etcdctl lock`. Contenders of all
 * processes are served in the order in which they came.
 *
 * Does not guarantee: anything across a restore from a snapshot, which takes revisions back and which
 * nobody can see: raise tokens first (docs/backends/etcd.md).
 *
 * The requests that make places are in asking.ts, waiting in queue.ts, sessions in sessions.ts and
 * confirming.ts. Never used: etcd's own Lock and Election services, see clients/etcd/descriptor.ts.
 */
import { EtcdClient } from '../../clients/etcd/client.ts'
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
import { withSparingBoot } from '../../core/elapsed.ts'
import type { Warning } from '../../core/events.ts'
import { TTL_MS_MAX } from '../../core/options.ts'
import { onAdoptSeams, type Seams, systemSeams } from '../../core/seams.ts'
import { requestTimeoutMsMax } from '../../core/validity.ts'
import { askOnce } from './asking.ts'
import { Base } from './base.ts'
import { comparesOf } from './comparing.ts'
import type { Context } from './context.ts'
import { Entries } from './entries.ts'
import { onGuard } from './guard.ts'
import { cancel, proclaim, release } from './holding.ts'
import { Keys } from './keys.ts'
import { inspect, list } from './looking.ts'
import { type EtcdOptions, type EtcdSettings, readEtcdOptions } from './options.ts'
import { Queue } from './queue.ts'
import { Renewals } from './renewing.ts'
import { raise, revoke } from './revoking.ts'
import { Sessions } from './sessions.ts'

/** etcd counts in whole seconds. */
const ETCD_TTL_MS_MIN = 1000

/**
 * Locks in etcd 3.4 or later. Connects when the first lock is asked for, by `@grpc/grpc-js`; its
 * connections end with `locks.close()`.
 *
 * TTLs are whole seconds, rounded up, and at least what etcd grants: 2 s with its default election
 * time-out, whatever was asked for below that.
 *
 * @throws InvalidArgumentError naming the option that is wrong.
 */
export function etcdBackend(options: EtcdOptions): Backend {
  return etcdBackendWith(systemSeams, options)
}

export function etcdBackendWith(seams: Seams, options: EtcdOptions): Backend {
  return new EtcdBackend(seams, readEtcdOptions(options))
}

class EtcdBackend implements Backend {
  readonly capabilities: Capabilities = {
    scope: 'network',
    fencing: 'consensus',
    expiry: 'session',
    lossNotice: 'before',
    order: 'queue',
    wakeUp: 'push',
    ttlMsMin: ETCD_TTL_MS_MIN,
    ttlMsMax: TTL_MS_MAX,
  }
  warn?: (warning: Warning) => void
  readonly #settings: EtcdSettings
  readonly #context: Context
  readonly #queue: Queue
  readonly #renewals: Renewals
  #source = ''
  #opening: Promise<void> | null = null
  #closing: Promise<void> | null = null
  #pending = 0
  #idle: (() => void) | null = null

  constructor(seams: Seams, settings: EtcdSettings) {
    // A session's age is asked for four times a pair, and reading the boot clock takes 10 us.
    let current = withSparingBoot(seams)
    onAdoptSeams(this, (given) => {
      current = withSparingBoot(given)
    })
    this.#settings = settings
    const keys = new Keys(settings.keyPrefix)
    const context = (): Context => this.#context
    this.#context = {
      seams: () => current,
      client: new EtcdClient(() => current, settings.target),
      keys,
      base: new Base(keys),
      sessions: new Sessions(context),
      entries: new Entries(context),
      source: () => this.#source,
      background: (work) => this.#background(work),
    }
    this.#queue = new Queue(context)
    this.#renewals = new Renewals(context)
    const open = async (): Promise<void> => (this.#source === '' ? this.#open() : undefined)
    onGuard(this, (lease) => comparesOf(this.#context, open, lease))
  }

  async tryAcquire(request: AcquireRequest): Promise<AcquireResult> {
    if (this.#source === '') await this.#open()
    return askOnce(this.#context, this.#own(request))
  }

  async acquireInTurn(
    request: AcquireRequest,
    signal: AbortSignal,
    refused: (held: Extract<AcquireResult, { kind: 'held' }>) => void,
    unanswered?: (error: unknown) => void,
  ): Promise<AcquireResult> {
    if (this.#source === '') await this.#open()
    return this.#queue.acquire(this.#own(request), signal, { refused, unanswered })
  }

  async wakeUp(lockName: string, signal: AbortSignal): Promise<void> {
    if (this.#source === '') await this.#open()
    return this.#queue.wakeUp(lockName, signal)
  }

  async renew(grant: Grant, ttlMs: number): Promise<RenewResult> {
    return this.#renewals.renew(grant, ttlMs)
  }

  async release(grant: Grant, keepForMs: number): Promise<'released' | 'not-held'> {
    return release(this.#context, grant, keepForMs)
  }

  async cancel(lockName: string, owner: string): Promise<void> {
    return cancel(this.#context, lockName, owner)
  }

  async proclaim(lease: Fenced, value: string): Promise<'proclaimed' | 'not-held'> {
    return proclaim(this.#context, lease, value)
  }

  async inspect(lockName: string): Promise<LockInfo | null> {
    return inspect(this.#context, lockName)
  }

  list(prefix: string, limit: number): AsyncIterable<LockInfo> {
    return list(this.#context, prefix, limit)
  }

  async revoke(request: AcquireRequest, seen: RevokeOptions): Promise<Grant | null> {
    if (this.#source === '') await this.#open()
    return revoke(this.#context, request, seen)
  }

  async raise(lockName: string, fencingTokenMin: bigint): Promise<void> {
    return raise(this.#context, lockName, fencingTokenMin)
  }

  close(): Promise<void> {
    this.#closing ??= this.#close()
    return this.#closing
  }

  async #close(): Promise<void> {
    this.#queue.close()
    const { sessions, entries, client } = this.#context
    await Promise.all([this.#background(() => sessions.close()), this.#settled()])
    entries.close()
    client.close()
  }

  #own(request: AcquireRequest): AcquireRequest {
    return this.#settings.leaseMode === 'own' ? { ...request, ownLife: true } : request
  }

  /** Which etcd it is, and what its revisions are raised by. */
  #open(): Promise<void> {
    this.#opening ??= this.#look().catch((error: unknown) => {
      this.#opening = null
      throw error
    })
    return this.#opening
  }

  async #look(): Promise<void> {
    const { client, keys, base } = this.#context
    const answer = await client.read('Range', { key: keys.base }, requestTimeoutMsMax, 'a look')
    base.note(answer.kvs?.[0])
    this.#source = `etcd:${answer.header?.cluster_id ?? ''}:${this.#settings.keyPrefix}`
  }

  #background(work: () => Promise<unknown>): Promise<void> {
    this.#pending += 1
    const end = (): void => {
      this.#pending -= 1
      if (this.#pending === 0) this.#idle?.()
    }
    return work().then(end, end)
  }

  /** Each request in the background is bounded, so this is too. */
  #settled(): Promise<void> {
    if (this.#pending === 0) return Promise.resolve()
    return new Promise((resolve) => {
      this.#idle = resolve
    })
  }
}
