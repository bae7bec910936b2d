/**
 * Start reading here: the engine, once for every store.
 *
 *     acquire ─▶ lease ─▶ lease.signal ─▶ lease.fencingToken ─▶ a guard at the data
 *
 * One attempt is in attempt.ts, the life of a lease in lease.ts and watchdog.ts, waiting in wait.ts,
 * how a grant ends in pass-on.ts, and what is undone in undo.ts. The store's side is the contract in
 * core/backend.ts. The rules that bind all of them are in docs/design.md.
 */
import { AsyncLocalStorage } from 'node:async_hooks'
import type { Backend, LockInfo, RevokeOptions } from '../core/backend.ts'
import type { Capabilities } from '../core/capabilities.ts'
import { withSparingBoot } from '../core/elapsed.ts'
import {
  ClosedError,
  InvalidArgumentError,
  LockHeldError,
  ReentrantAcquireError,
} from '../core/errors.ts'
import { Emitter, type LockEvents } from '../core/events.ts'
import type { AcquireOptions, Lease, LeaseOptions, Locks, LocksOptions } from '../core/lease.ts'
import {
  checkLockName,
  checkRevoke,
  OptionReader,
  readListOptions,
  type Settings,
} from '../core/options.ts'
import { thisProcess } from '../core/owner.ts'
import { adoptSeams, type Seams, seamsWithClock, systemSeams } from '../core/seams.ts'
import { started } from '../core/started.ts'
import { Agenda } from './agenda.ts'
import { askOnce } from './ask-once.ts'
import { handOut } from './attempt.ts'
import type { Context } from './context.ts'
import { setInside } from './inside.ts'
import type { HeldLease } from './lease.ts'
import { listing, look } from './look.ts'
import { Names } from './names.ts'
import { endGrant } from './pass-on.ts'
import { Pulse } from './pulse.ts'
import { join } from './shared.ts'
import { shutDown } from './shut-down.ts'
import { takeOver } from './take-over.ts'
import { Turns } from './turns.ts'
import { Undo } from './undo.ts'
import { settle } from './using.ts'
import { Waits } from './wait.ts'

/** The leases that the running call chain holds through `using`. */
const chain = new AsyncLocalStorage<readonly HeldLease[]>()

/**
 * Makes locks on a store.
 *
 * @param defaults Options for every call; a call's own options come first. `clock` replaces timers
 *   and the monotonic clock, for tests.
 * @throws InvalidArgumentError naming the option, its value and the allowed range.
 */
export function createLocks<C extends Capabilities>(
  backend: Backend<C>,
  defaults: LocksOptions = {},
): Locks<C> {
  const clock = defaults?.clock
  const seams = clock ? seamsWithClock(clock) : systemSeams
  const locks = createLocksWith(seams, backend, defaults)
  if (clock) adoptSeams(backend, seams)
  return locks
}

/** For tests and the simulation: all seams, and a TTL below the public minimum. Not exported. */
export function createLocksWith<C extends Capabilities>(
  seams: Seams,
  backend: Backend<C>,
  defaults: LocksOptions = {},
  ttlMsFloor?: number,
): Locks<C> {
  const { tryAcquire, renew, release, cancel, capabilities } = (backend ?? {}) as Partial<Backend>
  const isBackend = [tryAcquire, renew, release, cancel].every((one) => typeof one === 'function')
  if (!isBackend || typeof capabilities?.ttlMsMin !== 'number') {
    throw new InvalidArgumentError(
      'backend',
      backend,
      'a backend, such as redisBackend(client); of a URL connect() makes locks',
    )
  }
  return new Engine(seams, backend, new OptionReader(backend.capabilities, defaults, ttlMsFloor))
}

class Engine<C extends Capabilities> implements Locks<C> {
  readonly capabilities: C
  readonly backend: Backend<C>
  readonly #context: Context
  #closing: Promise<void> | null = null

  constructor(ownSeams: Seams, backend: Backend<C>, options: OptionReader) {
    const seams = withSparingBoot(ownSeams)
    this.capabilities = backend.capabilities
    this.backend = backend
    const emitter = new Emitter()
    this.#context = {
      seams,
      backend,
      emitter,
      options,
      self: thisProcess(),
      waiter: seams.nonce(),
      agenda: new Agenda(seams, false),
      waiting: new Agenda(seams, true),
      held: new Names(),
      leases: [],
      attempts: new Set(),
      isClosed: () => this.#closing !== null,
      pulse: new Pulse(() => this.#context),
      undo: new Undo(() => this.#context),
      endGrant: (ending) => this.#context.undo.follow(endGrant(this.#context, ending)),
      waits: new Waits(() => this.#context),
      turns: new Turns(() => this.#context),
    }
    join(backend, emitter)
    setInside(this, { seams, options, emitter })
  }

  acquire(lockName: string, options?: AcquireOptions): Promise<Lease> {
    return started(() => {
      const settings = this.#read(lockName, options)
      this.#refuseReentry(lockName)
      return this.#acquire(lockName, settings)
    })
  }

  async tryAcquire(lockName: string, options?: LeaseOptions): Promise<Lease | null> {
    const settings = this.#read(lockName, options, { waitMs: 'none: tryAcquire does not wait' })
    const answer = await askOnce(this.#context, lockName, settings)
    return answer.kind === 'granted' ? handOut(this.#context, answer.lease) : null
  }

  async using<T>(
    lockName: string,
    ...rest: [(lease: Lease) => Promise<T>] | [AcquireOptions, (lease: Lease) => Promise<T>]
  ): Promise<T> {
    const [options, fn] = rest.length === 1 ? [undefined, rest[0]] : rest
    if (typeof fn !== 'function') {
      throw new InvalidArgumentError('fn', fn, 'a function that takes the lease')
    }
    const settings = this.#read(lockName, options)
    this.#refuseReentry(lockName)
    const lease = handOut(this.#context, await this.#acquire(lockName, settings))
    const held = chain.getStore() ?? []
    return settle(lease, () => chain.run([...held, lease], () => fn(lease)))
  }

  async inspect(lockName: string): Promise<LockInfo | null> {
    checkLockName(lockName)
    this.#refuseClosed()
    return look(this.#context, () => this.backend.inspect(lockName))
  }

  async *list(options?: {
    prefix?: string | undefined
    limit?: number | undefined
  }): AsyncGenerator<LockInfo, void, undefined> {
    const { prefix, limit } = readListOptions(options)
    this.#refuseClosed()
    yield* listing(this.#context, prefix, limit)
  }

  async revoke(lockName: string, seen: RevokeOptions): Promise<Lease | null> {
    checkLockName(lockName)
    checkRevoke(seen)
    this.#refuseClosed()
    return this.#context.undo.follow(takeOver(this.#context, lockName, seen))
  }

  on<K extends keyof LockEvents>(type: K, listener: (event: LockEvents[K]) => void): () => void {
    if (!Emitter.types.includes(type)) {
      throw new InvalidArgumentError('type', type, `one of ${Emitter.types.join(', ')}`)
    }
    if (typeof listener !== 'function') {
      throw new InvalidArgumentError('listener', listener, 'a function')
    }
    return this.#context.emitter.on(type, listener)
  }

  close(): Promise<void> {
    // Closed before anybody is told of it: who is told may ask again at once.
    this.#closing ??= Promise.resolve().then(() => shutDown(this.#context))
    return this.#closing
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  #read(
    lockName: string,
    options: AcquireOptions | undefined,
    refused?: Parameters<OptionReader['read']>[1],
  ): Settings {
    checkLockName(lockName)
    const settings = this.#context.options.read(options, refused)
    this.#refuseClosed()
    settings.signal?.throwIfAborted()
    return settings
  }

  #refuseClosed(): void {
    if (this.#closing) throw new ClosedError()
  }

  /** Only `using` is seen: a handle may be passed on to whoever releases it. */
  #refuseReentry(lockName: string): void {
    for (const lease of chain.getStore() ?? []) {
      if (lease.lockName === lockName && lease.isHeld && lease.belongsTo(this.#context)) {
        throw new ReentrantAcquireError(lockName)
      }
    }
  }

  #acquire(lockName: string, settings: Settings): Promise<HeldLease> {
    const { waits, turns, backend } = this.#context
    if (!(settings.waitMs > 0)) return this.#acquireNow(lockName, settings)
    return (backend.acquireInTurn ? turns : waits).enter(lockName, settings)
  }

  async #acquireNow(lockName: string, settings: Settings): Promise<HeldLease> {
    const startedAtMs = this.#context.seams.nowMs()
    const answer = await askOnce(this.#context, lockName, settings)
    if (answer.kind === 'granted') return handOut(this.#context, answer.lease)
    const waitedMs = this.#context.seams.nowMs() - startedAtMs
    throw new LockHeldError(lockName, waitedMs, answer.holder, { votes: answer.votes })
  }
}
