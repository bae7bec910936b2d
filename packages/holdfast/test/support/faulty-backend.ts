/**
 * A real backend with accidents on the way to it and back.
 *
 * Every call goes through the faults that a test planned for its method; without one it passes
 * unchanged. A fault gets the call as a function and decides when it reaches the store, and what the
 * engine hears of it, if anything: the store itself stays real.
 */
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
} from '../../src/core/backend.ts'
import type { Capabilities } from '../../src/core/capabilities.ts'
import type { Warning } from '../../src/core/events.ts'
import type { Seams } from '../../src/core/seams.ts'

export type Method =
  | 'tryAcquire'
  | 'handOver'
  | 'wakeUp'
  | 'renew'
  | 'release'
  | 'cancel'
  | 'proclaim'
  | 'inspect'
  | 'revoke'
  | 'close'

/** `apply` lets the call reach the store; the result is what the engine gets, whatever it is. */
export type Fault = (apply: () => Promise<unknown>) => unknown

export interface Call {
  readonly method: Method
  /** When it left the engine, on the clock of the test. */
  readonly atMs: number
  readonly lockName: string
  /** Who it is for: the owner that asks, renews, releases or is cancelled; of a hand-over the next. */
  readonly owner: string
  readonly ttlMs: number | null
}

export class FaultyBackend implements Backend {
  readonly capabilities: Capabilities
  warn?: (warning: Warning) => void
  readonly calls: Call[] = []
  /** What was asked for, with the callbacks that a store may call at any time. */
  readonly requests: AcquireRequest[] = []
  handOver?: (grant: Grant, next: AcquireRequest, evenIfWanted: boolean) => Promise<HandOverResult>
  wakeUp?: (lockName: string, signal: AbortSignal) => Promise<void>
  readonly #store: Backend
  readonly #nowMs: () => number
  readonly #once = new Map<Method, Fault[]>()
  readonly #always = new Map<Method, Fault>()

  constructor(store: Backend, nowMs: () => number, without: readonly ('handOver' | 'wakeUp')[]) {
    this.#store = store
    this.#nowMs = nowMs
    this.capabilities = store.capabilities
    if (store.handOver && !without.includes('handOver')) {
      this.handOver = (grant, next, even) =>
        this.#call('handOver', next, next.ttlMs, () => store.handOver!(grant, next, even))
    }
    if (store.wakeUp && !without.includes('wakeUp')) {
      this.wakeUp = (lockName, signal) =>
        this.#call('wakeUp', { lockName, owner: '' }, null, () => store.wakeUp!(lockName, signal))
    }
  }

  /** The next calls of `method` meet these faults, one each, in this order. */
  next(method: Method, ...faults: readonly Fault[]): void {
    this.#once.set(method, [...(this.#once.get(method) ?? []), ...faults])
  }

  /** Every call of `method` meets `fault` from now on; null ends that. */
  always(method: Method, fault: Fault | null): void {
    if (fault) this.#always.set(method, fault)
    else this.#always.delete(method)
  }

  /** Faults of `method` that have met no call yet are taken back. */
  forget(method: Method): void {
    this.#once.delete(method)
    this.#always.delete(method)
  }

  /** The calls of one method, in order. */
  callsOf(method: Method): Call[] {
    return this.calls.filter((call) => call.method === method)
  }

  tryAcquire(request: AcquireRequest): Promise<AcquireResult> {
    this.requests.push(request)
    return this.#call('tryAcquire', request, request.ttlMs, () => this.#store.tryAcquire(request))
  }

  renew(grant: Grant, ttlMs: number): Promise<RenewResult> {
    return this.#call('renew', grant, ttlMs, () => this.#store.renew(grant, ttlMs))
  }

  release(grant: Grant, keepForMs: number): Promise<'released' | 'not-held'> {
    return this.#call('release', grant, keepForMs, () => this.#store.release(grant, keepForMs))
  }

  cancel(lockName: string, owner: string): Promise<void> {
    return this.#call('cancel', { lockName, owner }, null, () =>
      this.#store.cancel(lockName, owner),
    )
  }

  inspect(lockName: string): Promise<LockInfo | null> {
    return this.#call('inspect', { lockName, owner: '' }, null, () => this.#store.inspect(lockName))
  }

  revoke(request: AcquireRequest, seen: RevokeOptions): Promise<Grant | null> {
    return this.#call('revoke', request, request.ttlMs, () => this.#store.revoke(request, seen))
  }

  close(): Promise<void> {
    return this.#call('close', { lockName: '', owner: '' }, null, () => this.#store.close())
  }

  proclaim(lease: Fenced, value: string): Promise<'proclaimed' | 'not-held'> {
    return this.#call('proclaim', lease, null, () => this.#store.proclaim(lease, value))
  }

  list(prefix: string, limit: number): AsyncIterable<LockInfo> {
    return this.#store.list(prefix, limit)
  }

  raise(lockName: string, fencingTokenMin: bigint): Promise<void> {
    return this.#store.raise(lockName, fencingTokenMin)
  }

  #call<T>(
    method: Method,
    { lockName, owner }: Pick<Fenced, 'lockName' | 'owner'>,
    ttlMs: number | null,
    apply: () => Promise<T>,
  ): Promise<T> {
    this.calls.push({ method, atMs: this.#nowMs(), lockName, owner, ttlMs })
    const fault = this.#once.get(method)?.shift() ?? this.#always.get(method)
    // A fault may break the contract on purpose: the engine must survive what is no promise at all.
    return (fault ? fault(apply) : apply()) as Promise<T>
  }
}

/** The request never arrives, and nobody says so. */
export const lostRequest: Fault = () => new Promise(() => {})

/** The store did it; the answer never comes. */
export const lostReply: Fault = (apply) => {
  // Whatever the store says is lost, a refusal too.
  apply().catch(() => {})
  return new Promise(() => {})
}

/** The request never arrives, and the client says so. */
export function refusedWith(error: unknown): Fault {
  return () => Promise.reject(error)
}

/** The store did it, but the client hears `error`. */
export function appliedButHears(error: unknown): Fault {
  return async (apply) => {
    await apply()
    throw error
  }
}

export function throwing(error: unknown): Fault {
  return () => {
    throw error
  }
}

/** The store is not asked; the engine gets `value`. */
export function answering(value: unknown): Fault {
  return () => value
}

/** On its way for so long; the answer on its way back for so long. */
export function delayed(seams: Seams, thereMs: number, backMs: number): Fault {
  const pass = (ms: number): Promise<void> =>
    new Promise((resolve) => {
      if (ms === 0) resolve()
      else seams.after(ms, resolve)
    })
  return async (apply) => {
    await pass(thereMs)
    const answer = await apply()
    await pass(backMs)
    return answer
  }
}

/** A call that stands still at both ends until the test moves it. */
export interface Gate {
  readonly fault: Fault
  /** Lets the request arrive; resolves when the store has done it. */
  arrive(): Promise<void>
  /** Lets the answer out. It arrives first, if it has not yet. */
  answer(): Promise<void>
}

export function gate(): Gate {
  let apply: (() => Promise<unknown>) | null = null
  let applied: Promise<unknown> | null = null
  let settle: ((answer: Promise<unknown>) => void) | null = null
  const arrive = async (): Promise<void> => {
    if (apply === null) throw new Error('no call has come to this gate')
    applied ??= apply()
    // The engine hears of a refusal in `answer`.
    await applied.catch(() => {})
  }
  return {
    fault: (call) => {
      apply = call
      return new Promise((resolve) => {
        settle = resolve
      })
    },
    arrive,
    answer: async () => {
      await arrive()
      settle?.(applied as Promise<unknown>)
    },
  }
}
