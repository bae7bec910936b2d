/**
 * Locks among the callers of one process: for tests, for tools of one process, and as the shortest
 * complete example of the contract in core/backend.ts.
 *
 * Guarantees: every method does its whole work before it returns its promise, so no two requests
 * interleave, and an answer is never lost. An entry ends on the monotonic clock. An entry that lives
 * is never dropped to make room: when all places are taken, a new name is refused.
 *
 * Does not guarantee: anything towards another process, a worker thread, or another backend made by
 * `memoryBackend()`. Nothing outlives the process; tokens go on rising over a restart only while
 * the wall clock goes forward.
 *
 * I1. An owner of null is nobody: no grant matches it.
 * I2. The counter never goes down, and every grant takes a new value of it.
 * I3. All clocks of one backend are one clock.
 */
import { assert } from '../../core/assert.ts'
import type {
  AcquireRequest,
  AcquireResult,
  Backend,
  Fenced,
  Grant,
  HandOverResult,
  LockInfo,
  Options,
  RenewResult,
  RevokeOptions,
} from '../../core/backend.ts'
import type { Capabilities } from '../../core/capabilities.ts'
import { BackendUnavailableError, InvalidArgumentError } from '../../core/errors.ts'
import type { Warning } from '../../core/events.ts'
import { TTL_MS_MAX, TTL_MS_MIN } from '../../core/options.ts'
import { onAdoptSeams, type Seams, systemSeams } from '../../core/seams.ts'
import { checkToken, TOKEN_MAX } from '../../core/token.ts'
import { Entries, type Entry } from './entries.ts'
import { Tombstones } from './tombstones.ts'
import { WakeUps } from './wake-ups.ts'

/** Some 700 MB of entries, measured; far above what one process has use for. */
const NAMES_MAX = 1_000_000
/** Some 10 MB. */
const TOMBSTONES_MAX = 100_000
/** Two readings of one clock, one after the other, can only differ by a pause of the process. */
const SAME_CLOCK_MS = 1000
/** A contender that waits asks again at least every 1.25 s, and so renews its mark. */
const WANTED_MS = 2000
const SOURCE = 'memory:'

type ProcessCapabilities = Capabilities & { readonly scope: 'process' }

/** Limits that tests lower; the public factory has no such option. */
export type MemoryLimits = Options<{ ttlMsMin: number; namesMax: number; tombstonesMax: number }>

/**
 * Locks among the callers of this process.
 *
 * Each call makes a store of its own: contenders exclude each other only through one and the same
 * backend. At most 1,000,000 names at a time; above that an acquire rejects with
 * `BackendUnavailableError` (`out-of-memory`), and no lock that is held is dropped.
 */
export function memoryBackend(): Backend<Capabilities & { readonly scope: 'process' }> {
  return memoryBackendWith(systemSeams)
}

export function memoryBackendWith(
  seams: Seams,
  limits: MemoryLimits = {},
): Backend<ProcessCapabilities> {
  return new MemoryBackend(seams, limits)
}

class MemoryBackend implements Backend<ProcessCapabilities> {
  readonly capabilities: ProcessCapabilities
  warn?: (warning: Warning) => void
  #seams: Seams
  #adopted = false
  readonly #namesMax: number
  readonly #entries = new Entries()
  readonly #tombstones: Tombstones
  readonly #wakeUps = new WakeUps()
  /** The last token granted, or raised to; one for all names. */
  #counter = 0n

  constructor(seams: Seams, limits: MemoryLimits) {
    this.#seams = seams
    this.#namesMax = limits.namesMax ?? NAMES_MAX
    this.#tombstones = new Tombstones(limits.tombstonesMax ?? TOMBSTONES_MAX)
    this.capabilities = {
      scope: 'process',
      fencing: 'process-lifetime',
      expiry: 'monotonic-clock',
      lossNotice: 'before',
      order: 'queue-per-process',
      wakeUp: 'push',
      ttlMsMin: limits.ttlMsMin ?? TTL_MS_MIN,
      ttlMsMax: TTL_MS_MAX,
    }
    onAdoptSeams(this, (given) => this.#adopt(given))
  }

  async tryAcquire(request: AcquireRequest): Promise<AcquireResult> {
    const nowMs = this.#now()
    const { lockName, owner } = request
    const entry = this.#entries.at(lockName, nowMs)
    if (entry?.owner === owner) return { kind: 'granted', grant: this.#grantOf(entry, nowMs) }
    if (entry) {
      if (request.waits) {
        entry.wantedUntilMs = nowMs + WANTED_MS
        entry.wantedBy = request.waiter
      }
      return refusalOf(entry, nowMs)
    }
    // Whoever cancelled this attempt does not listen any more: any answer but a grant will do.
    if (this.#tombstones.has(owner, nowMs)) {
      return { kind: 'held', retryAfterMs: null, holder: null }
    }
    if (this.#entries.size >= this.#namesMax) {
      throw new BackendUnavailableError('out-of-memory', `${this.#namesMax} names are taken`)
    }
    const granted = this.#entryOf(request, nowMs + request.ttlMs)
    this.#entries.set(granted)
    return { kind: 'granted', grant: this.#grantOf(granted, nowMs) }
  }

  async wakeUp(lockName: string, signal: AbortSignal): Promise<void> {
    // It may have been released after the refusal that sends the contender here.
    if (!this.#entries.at(lockName, this.#now())) return
    await this.#wakeUps.sleep(lockName, signal)
  }

  async handOver(
    grant: Grant,
    next: AcquireRequest,
    evenIfWanted: boolean,
  ): Promise<HandOverResult> {
    assert(next.lockName === grant.lockName, 'a hand-over stays on one name')
    const nowMs = this.#now()
    const entry = this.#entries.at(grant.lockName, nowMs)
    const isMarked = entry !== undefined && entry.wantedUntilMs > nowMs
    const wanted = isMarked && entry.wantedBy !== next.waiter
    if (entry?.owner === next.owner) {
      return { kind: 'handed-over', grant: this.#grantOf(entry, nowMs), wanted }
    }
    if (!entry || !this.#own(grant, nowMs)) return { kind: 'not-held' }
    if (this.#tombstones.has(next.owner, nowMs) || (wanted && !evenIfWanted)) {
      this.#free(grant.lockName)
      return { kind: 'freed' }
    }
    // Whoever waits still waits: the mark goes on with the new entry.
    const passed = {
      ...this.#entryOf(next, nowMs + next.ttlMs),
      wantedUntilMs: entry.wantedUntilMs,
      wantedBy: entry.wantedBy,
    }
    this.#entries.set(passed)
    return { kind: 'handed-over', grant: this.#grantOf(passed, nowMs), wanted }
  }

  async renew(grant: Grant, ttlMs: number): Promise<RenewResult> {
    const nowMs = this.#now()
    const entry = this.#entries.at(grant.lockName, nowMs)
    if (!entry || entry.owner === null) return { kind: 'lost', reason: 'expired' }
    if (entry.owner !== grant.owner) {
      const revoked = entry.revokedOwner === grant.owner
      return { kind: 'lost', reason: revoked ? 'revoked' : 'superseded' }
    }
    this.#entries.renew(entry, nowMs + ttlMs)
    return { kind: 'renewed', sentAtMs: nowMs, ttlMs }
  }

  async release(grant: Grant, keepForMs: number): Promise<'released' | 'not-held'> {
    const nowMs = this.#now()
    const entry = this.#own(grant, nowMs)
    if (!entry) return 'not-held'
    if (keepForMs > 0) this.#rest(entry, nowMs + keepForMs)
    else this.#free(grant.lockName)
    return 'released'
  }

  async cancel(lockName: string, owner: string): Promise<void> {
    const nowMs = this.#now()
    this.#tombstones.add(owner, nowMs)
    if (this.#entries.at(lockName, nowMs)?.owner === owner) this.#free(lockName)
  }

  async proclaim(lease: Fenced, value: string): Promise<'proclaimed' | 'not-held'> {
    const entry = this.#own(lease, this.#now())
    if (!entry?.holder) return 'not-held'
    entry.holder = { ...entry.holder, value }
    // Those who watch the holder sleep here too; a contender asks once for nothing.
    this.#wakeUps.wake(lease.lockName)
    return 'proclaimed'
  }

  async inspect(lockName: string): Promise<LockInfo | null> {
    const nowMs = this.#now()
    const entry = this.#entries.at(lockName, nowMs)
    return entry && entry.owner !== null ? infoOf(entry, nowMs) : null
  }

  async *list(prefix: string, limit: number): AsyncGenerator<LockInfo, void, undefined> {
    let left = limit
    for (const entry of this.#entries.values()) {
      if (left <= 0) return
      const nowMs = this.#seams.nowMs()
      const isHeld = entry.owner !== null && entry.endsAtMs > nowMs
      if (!isHeld || !entry.lockName.startsWith(prefix)) continue
      left -= 1
      yield infoOf(entry, nowMs)
    }
  }

  async revoke(request: AcquireRequest, seen: RevokeOptions): Promise<Grant | null> {
    const nowMs = this.#now()
    const entry = this.#entries.at(request.lockName, nowMs)
    if (!entry || entry.owner === null) return null
    if (entry.owner === request.owner) return this.#revokerGrant(entry, nowMs)
    if (!('fencingToken' in seen) || entry.fencingToken !== seen.fencingToken) return null
    if (this.#tombstones.has(request.owner, nowMs)) return null
    const taken: Entry = {
      ...this.#entryOf(request, entry.endsAtMs),
      lockDelayMs: entry.lockDelayMs,
      revokedOwner: entry.owner,
    }
    this.#tombstones.add(entry.owner, nowMs)
    this.#entries.set(taken)
    // Last, because it may run code of the old holder that asks this backend again.
    entry.onLost('revoked')
    return this.#revokerGrant(taken, nowMs)
  }

  async raise(lockName: string, fencingTokenMin: bigint): Promise<void> {
    assert(lockName !== '', 'names are checked before a backend sees them')
    checkToken(fencingTokenMin, 'fencingTokenMin')
    if (fencingTokenMin === TOKEN_MAX) {
      throw new InvalidArgumentError('fencingTokenMin', fencingTokenMin, 'a token below 2^63 - 1')
    }
    if (fencingTokenMin > this.#counter) this.#counter = fencingTokenMin
  }

  /** Others may still use this backend, so only those who sleep are told. */
  async close(): Promise<void> {
    this.#wakeUps.wakeAll()
  }

  /** Reads the clock, and sweeps away a bounded part of what has ended. */
  #now(): number {
    const nowMs = this.#seams.nowMs()
    this.#entries.sweep(nowMs)
    this.#tombstones.sweep(nowMs)
    return nowMs
  }

  /** The entry, if it is this grant's. */
  #own({ lockName, owner, fencingToken }: Fenced, nowMs: number): Entry | undefined {
    const entry = this.#entries.at(lockName, nowMs)
    return entry?.owner === owner && entry.fencingToken === fencingToken ? entry : undefined
  }

  /** Of everything that may be granted. Throws before anything is applied. */
  #entryOf(request: AcquireRequest, endsAtMs: number): Entry {
    const { lockName, owner, ttlMs, lockDelayMs, holder, onLost } = request
    if (this.#tombstones.isFull) {
      throw new BackendUnavailableError('backlog', 'too many attempts were cancelled of late')
    }
    assert(Number.isFinite(ttlMs), `the engine checks ttlMs, got ${ttlMs}`)
    assert(ttlMs > 0, `the engine checks ttlMs, got ${ttlMs}`)
    return {
      lockName,
      owner,
      fencingToken: this.#nextToken(),
      endsAtMs,
      sinceAtMs: this.#seams.wallMs(),
      lockDelayMs,
      revokedOwner: null,
      holder: { ...holder },
      wantedUntilMs: 0,
      wantedBy: '',
      onLost,
    }
  }

  /** The wall clock in microseconds as a floor lets tokens rise over a restart of the process. */
  #nextToken(): bigint {
    const next = this.#counter + 1n
    const floor = BigInt(Math.floor(this.#seams.wallMs() * 1000))
    this.#counter = next > floor ? next : floor
    assert(this.#counter <= TOKEN_MAX, 'I2: the counter was raised to its end')
    return this.#counter
  }

  #grantOf(entry: Entry, nowMs: number): Grant {
    assert(entry.owner !== null, 'I1: nobody is granted nothing')
    return {
      lockName: entry.lockName,
      fencingToken: entry.fencingToken,
      owner: entry.owner,
      source: SOURCE,
      ttlMs: Math.floor(entry.endsAtMs - nowMs),
      sentAtMs: nowMs,
    }
  }

  /** Without the holder's lock delay: that part is for the name to rest, not for work. */
  #revokerGrant(entry: Entry, nowMs: number): Grant {
    const grant = this.#grantOf(entry, nowMs)
    return { ...grant, ttlMs: Math.max(0, grant.ttlMs - entry.lockDelayMs) }
  }

  /** Nobody is woken: those who sleep learn by `retryAfterMs` when the rest is over. */
  #rest(entry: Entry, endsAtMs: number): void {
    this.#entries.set({ ...entry, owner: null, holder: null, endsAtMs })
  }

  #free(lockName: string): void {
    this.#entries.delete(lockName)
    this.#wakeUps.wake(lockName)
  }

  /** I3: with two clocks an entry would end early for one of their users. */
  #adopt(given: Seams): void {
    const used = this.#adopted || this.#entries.size > 0 || !this.#tombstones.isEmpty
    if (used && Math.abs(given.nowMs() - this.#seams.nowMs()) > SAME_CLOCK_MS) {
      throw new InvalidArgumentError('clock', given, 'the clock that this backend is used with')
    }
    this.#adopted = true
    this.#seams = given
  }
}

function refusalOf(entry: Entry, nowMs: number): AcquireResult {
  const { holder, owner } = entry
  const fencingToken = owner === null ? null : entry.fencingToken
  return { kind: 'held', retryAfterMs: remainingMs(entry, nowMs), holder, fencingToken }
}

function remainingMs(entry: Entry, nowMs: number): number {
  return Math.ceil(entry.endsAtMs - nowMs)
}

function infoOf(entry: Entry, nowMs: number): LockInfo {
  return {
    lockName: entry.lockName,
    fencingToken: entry.fencingToken,
    holder: entry.holder,
    foreignOwner: null,
    sinceAtMs: entry.sinceAtMs,
    remainingMs: remainingMs(entry, nowMs),
    contenderCount: null,
  }
}
