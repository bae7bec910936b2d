/**
 * Locks among the processes of one host, in a SQLite file; no server.
 *
 * Guarantees: all work of one request is one transaction, begun by BEGIN IMMEDIATE: it is applied whole
 * or not at all, whenever a process is killed. With `synchronous: 'full'` a grant is on the disk before
 * it is answered. Contenders are served in the order of the queue in the file, whatever process they
 * are of, and dead ones are passed over. The event loop is not held for more than a few milliseconds.
 *
 * Does not guarantee: anything between two hosts. A process that is stopped in the middle of a
 * transaction, a tenth of a millisecond, keeps all others out until it goes on or is killed: the write
 * lock is the kernel's, and no clock ends it. They reject with BackendUnavailableError meanwhile.
 *
 * I1. An owner of null is nobody: no grant matches it.
 * I2. Whatever an answer depends on is read in the transaction that applies it. Only a refusal may come
 *     from a plain read: it applies nothing.
 * I3. What draws a token waits for the disk; nothing else does.
 */
import { resolve } from 'node:path'
import { immediately, reading, type SqliteDatabase, sqliteFileOf } from '../../clients/sqlite.ts'
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
import { InvalidArgumentError } from '../../core/errors.ts'
import type { Warning } from '../../core/events.ts'
import { TTL_MS_MAX, TTL_MS_MIN } from '../../core/options.ts'
import { onAdoptSeams, type Seams, systemSeams } from '../../core/seams.ts'
import { checkToken, TOKEN_MAX } from '../../core/token.ts'
import { requestTimeoutMsMax } from '../../core/validity.ts'
import {
  acquire,
  acquireIfFree,
  again,
  found,
  fresh,
  look,
  type Opened,
  refusal,
  refusalAtALook,
  revokerGrant,
} from './answers.ts'
import { checkFileSystem } from './file-systems.ts'
import { type Host, hasBootClock, thisHost } from './host.ts'
import { listed, SqliteLooks } from './looking.ts'
import { checkOneName } from './one-name.ts'
import { readSqliteOptions, type SqliteOptions, type SqliteSettings } from './options.ts'
import { Queue } from './queue.ts'
import { Records } from './records.ts'
import { SameFile } from './same-file.ts'
import { openTables } from './schema.ts'
import { SqliteWakeUps } from './wake-ups.ts'

const ACQUIRE = 'an acquire'
/** Of more the next ask is a write, which is slower and as right. */
const WANTED_NAMES_MAX = 1000

type HostCapabilities = Capabilities & { readonly scope: 'host' }

/** What tests change; the public factory has no such option. */
export type SqliteLimits = Readonly<{ ttlMsMin?: number; host?: Host }>

/**
 * Locks among the processes of one host, in the file of `database`: better-sqlite3 12, or node:sqlite
 * from Node 22.13. Give it a connection that is used for nothing else, and close it yourself after
 * `locks.close()`. The file is switched to WAL, and the tables are made, at the first request.
 *
 * @throws InvalidArgumentError when `database` is no open database, or one without a file, which other
 *   processes could not see; or when an option is wrong. At the first request, when the file lies on
 *   a network file system, has a hard link, or is mounted by itself; or its tables are of a later version.
 */
export function sqliteBackend(
  database: SqliteDatabase,
  options: SqliteOptions = {},
): Backend<Capabilities & { readonly scope: 'host' }> {
  return sqliteBackendWith(systemSeams, database, options)
}

export function sqliteBackendWith(
  seams: Seams,
  database: SqliteDatabase,
  options: SqliteOptions = {},
  limits: SqliteLimits = {},
): Backend<HostCapabilities> {
  return new SqliteBackend(seams, database, options, limits)
}

class SqliteBackend implements Backend<HostCapabilities> {
  readonly capabilities: HostCapabilities
  warn?: (warning: Warning) => void
  #seams: Seams
  readonly #db: SqliteDatabase
  readonly #path: string
  readonly #file: SameFile
  readonly #settings: SqliteSettings
  readonly #host: Host
  /** Names that were refused when they were asked for, and may be held still; `woken`: not any more. */
  readonly #wanted = new Map<string, 'refused' | 'woken'>()
  #opened: Opened | null = null
  #opening: Promise<Opened> | null = null

  constructor(seams: Seams, db: SqliteDatabase, options: SqliteOptions, limits: SqliteLimits) {
    this.#seams = seams
    this.#settings = readSqliteOptions(options)
    const file = sqliteFileOf(db)
    if (file === '') {
      const allowed = 'a database in a file, because other processes do not see one in memory'
      throw new InvalidArgumentError('database', db, allowed)
    }
    this.#db = db
    this.#path = resolve(file)
    this.#file = new SameFile(this.#path)
    this.#host = limits.host ?? thisHost()
    this.capabilities = {
      scope: 'host',
      fencing: this.#settings.synchronous === 'full' ? 'durable-store' : 'forward-clock',
      expiry: hasBootClock(this.#host) ? 'boot-clock' : 'wall-clock',
      lossNotice: 'before',
      order: 'queue',
      wakeUp: 'push',
      ttlMsMin: limits.ttlMsMin ?? TTL_MS_MIN,
      ttlMsMax: TTL_MS_MAX,
    }
    onAdoptSeams(this, (given) => {
      this.#seams = given
    })
  }

  async tryAcquire(request: AcquireRequest): Promise<AcquireResult> {
    const sentAtMs = this.#seams.nowMs()
    const opened = this.#opened ?? (await this.#open(sentAtMs + request.timeoutMs))
    const { lockName } = request
    const before = this.#wanted.get(lockName)
    const result = await (before === 'refused'
      ? this.#lookFirst(opened, request, sentAtMs)
      : this.#takeFirst(opened, request, sentAtMs))
    // Where a grant was waited for, others are likely to wait too.
    if (result.kind === 'granted' && before !== 'woken') this.#wanted.delete(lockName)
    else if (this.#wanted.size < WANTED_NAMES_MAX) this.#wanted.set(lockName, 'refused')
    return result
  }

  async wakeUp(lockName: string, signal: AbortSignal): Promise<void> {
    const opened = this.#opened ?? (await this.#open())
    await opened.wakeUps.sleep(lockName, signal)
    if (this.#wanted.has(lockName)) this.#wanted.set(lockName, 'woken')
  }

  async stopWaiting(lockName: string, waiter: string): Promise<void> {
    const { queue, wakeUps } = this.#opened ?? (await this.#open())
    queue.forget(lockName, waiter)
    await this.#writeForThisBoot('the end of a wait', () => queue.leave(lockName, waiter))
    wakeUps.changed(lockName)
  }

  async handOver(
    grant: Grant,
    next: AcquireRequest,
    evenIfWanted: boolean,
  ): Promise<HandOverResult> {
    assert(next.lockName === grant.lockName, 'a hand-over stays on one name')
    const sentAtMs = this.#seams.nowMs()
    const untilMs = sentAtMs + next.timeoutMs
    const opened = this.#opened ?? (await this.#open(untilMs))
    const handOver = (): HandOverResult =>
      this.#handOver(opened, grant, next, evenIfWanted, sentAtMs)
    const result = await this.#write('a hand-over', handOver, untilMs)
    if (result.kind === 'freed') opened.wakeUps.changed(next.lockName)
    return result
  }

  async renew({ lockName, owner }: Grant, ttlMs: number): Promise<RenewResult> {
    const sentAtMs = this.#seams.nowMs()
    const { records } = this.#opened ?? (await this.#open())
    return this.#writeForThisBoot('a renewal', (): RenewResult => {
      if (records.renew(lockName, owner, ttlMs)) return { kind: 'renewed', sentAtMs, ttlMs }
      const entry = records.at(lockName)
      if (!entry || entry.owner === null) return { kind: 'lost', reason: 'expired' }
      return { kind: 'lost', reason: entry.revokedOwner === owner ? 'revoked' : 'superseded' }
    })
  }

  async release({ lockName, owner }: Grant, keepForMs: number): Promise<'released' | 'not-held'> {
    const { records, wakeUps } = this.#opened ?? (await this.#open())
    const isReleased = await this.#writeForThisBoot('a release', () =>
      keepForMs > 0 ? records.rest(lockName, owner, keepForMs) : records.remove(lockName, owner),
    )
    wakeUps.changed(lockName)
    return isReleased ? 'released' : 'not-held'
  }

  async cancel(lockName: string, owner: string): Promise<void> {
    const { records, wakeUps } = this.#opened ?? (await this.#open())
    await this.#writeForThisBoot('a cancel', () => {
      records.cancel(owner)
      records.remove(lockName, owner)
    })
    wakeUps.changed(lockName)
  }

  async proclaim(lease: Fenced, value: string): Promise<'proclaimed' | 'not-held'> {
    const { records } = this.#opened ?? (await this.#open())
    return this.#writeForThisBoot('a proclamation', () => {
      const entry = records.at(lease.lockName)
      if (entry?.owner !== lease.owner || entry.holder === null) return 'not-held'
      records.describe(lease.lockName, { ...entry.holder, value })
      return 'proclaimed'
    })
  }

  async inspect(lockName: string): Promise<LockInfo | null> {
    const { records } = this.#opened ?? (await this.#open())
    return this.#read('an inspect', () => {
      const entry = records.at(lockName)
      return entry && entry.owner !== null ? records.infoOf(entry) : null
    })
  }

  list(prefix: string, limit: number): AsyncIterable<LockInfo> {
    return listed(prefix, limit, async (fn) => {
      const { records } = this.#opened ?? (await this.#open())
      return this.#read('a listing', () => fn(records))
    })
  }

  async revoke(request: AcquireRequest, seen: RevokeOptions): Promise<Grant | null> {
    const sentAtMs = this.#seams.nowMs()
    const untilMs = sentAtMs + request.timeoutMs
    const opened = this.#opened ?? (await this.#open(untilMs))
    const revoke = (): Grant | null => this.#revoke(opened, request, seen, sentAtMs)
    return this.#write('a revoke', revoke, untilMs)
  }

  async raise(lockName: string, fencingTokenMin: bigint): Promise<void> {
    assert(lockName !== '', 'names are checked before a backend sees them')
    checkToken(fencingTokenMin, 'fencingTokenMin')
    if (fencingTokenMin === TOKEN_MAX) {
      throw new InvalidArgumentError('fencingTokenMin', fencingTokenMin, 'a token below 2^63 - 1')
    }
    const { records } = this.#opened ?? (await this.#open())
    await this.#write('a raise', () => records.raise(fencingTokenMin))
  }

  async close(): Promise<void> {
    this.#opened?.wakeUps.close()
  }

  /** Most names are free: there a plain read before would be for nothing. */
  async #takeFirst(
    opened: Opened,
    request: AcquireRequest,
    sentAtMs: number,
  ): Promise<AcquireResult> {
    const take = (): AcquireResult | 'taken' => acquireIfFree(opened, request, sentAtMs)
    // Who has the write lock keeps nobody from learning that the name is held.
    const whileBusy = (): AcquireResult | null => refusalAtALook(opened, request)
    const taken = await this.#write(ACQUIRE, take, sentAtMs + request.timeoutMs, whileBusy)
    return taken === 'taken' ? this.#refuseFirst(opened, request, sentAtMs) : taken
  }

  /** Whoever asks again for what is held keeps writers from nothing. */
  async #lookFirst(
    opened: Opened,
    request: AcquireRequest,
    sentAtMs: number,
  ): Promise<AcquireResult> {
    const untilMs = sentAtMs + request.timeoutMs
    const seen = await this.#read(ACQUIRE, () => look(opened, request), untilMs)
    if (seen === 'free') return this.#takeFirst(opened, request, sentAtMs)
    return seen === 'taken' ? this.#refuseFirst(opened, request, sentAtMs) : seen
  }

  /** I3. A place in the queue; the name may have been freed since, and is asked for then. */
  async #refuseFirst(
    opened: Opened,
    request: AcquireRequest,
    sentAtMs: number,
  ): Promise<AcquireResult> {
    const untilMs = sentAtMs + request.timeoutMs
    const refuse = (): AcquireResult | null => refusal(opened, request, found(opened, request))
    const refused = await this.#writeForThisBoot(ACQUIRE, refuse, untilMs)
    if (refused !== null) return refused
    return this.#write(ACQUIRE, () => acquire(opened, request, sentAtMs), untilMs)
  }

  #handOver(
    opened: Opened,
    grant: Grant,
    next: AcquireRequest,
    evenIfWanted: boolean,
    sentAtMs: number,
  ): HandOverResult {
    const { records, queue } = opened
    const { lockName, waiter } = next
    const { entry, isCancelled, isQueued } = records.find(lockName, next.owner)
    const wanted = isQueued && queue.firstOther(lockName, waiter) !== null
    if (entry?.owner === next.owner) {
      return { kind: 'handed-over', grant: again(opened, entry, sentAtMs), wanted }
    }
    if (entry?.owner !== grant.owner) return { kind: 'not-held' }
    if (isCancelled || (wanted && !evenIfWanted)) {
      records.remove(lockName, grant.owner)
      return { kind: 'freed' }
    }
    if (isQueued) queue.leave(lockName, waiter)
    return { kind: 'handed-over', grant: fresh(opened, next, sentAtMs), wanted }
  }

  #revoke(
    opened: Opened,
    request: AcquireRequest,
    seen: RevokeOptions,
    sentAtMs: number,
  ): Grant | null {
    const { records } = opened
    const { entry, isCancelled } = records.find(request.lockName, request.owner)
    if (!entry || entry.owner === null) return null
    if (entry.owner === request.owner) return revokerGrant(opened, entry, sentAtMs)
    if (!('fencingToken' in seen) || entry.fencingToken !== seen.fencingToken) return null
    if (isCancelled) return null
    records.cancel(entry.owner)
    return revokerGrant(opened, records.grant(request, entry), sentAtMs)
  }

  #read<T>(what: string, fn: () => T, untilMs = this.#latestMs()): Promise<T> {
    return reading(this.#db, this.#seams, boundsOf(what, untilMs), () => this.#inFile(fn))
  }

  #write<T>(
    what: string,
    fn: () => T,
    untilMs = this.#latestMs(),
    whileBusy: () => T | null = () => null,
  ): Promise<T> {
    const [db, seams, bounds] = [this.#db, this.#seams, boundsOf(what, untilMs)]
    return immediately(
      db,
      seams,
      bounds,
      () => this.#inFile(fn),
      () => this.#inFile(whileBusy),
    )
  }

  /**
   * I3. For what a power cut may take back: no process from before it lives to miss it, and the rows
   * are cleared at the boot, or end by the clock where there is no boot id.
   */
  #writeForThisBoot<T>(what: string, fn: () => T, untilMs = this.#latestMs()): Promise<T> {
    const bounds = { ...boundsOf(what, untilMs), isOfThisBoot: true }
    return immediately(this.#db, this.#seams, bounds, () => this.#inFile(fn))
  }

  #inFile<T>(fn: () => T): T {
    this.#file.check()
    return this.#opened === null ? fn() : this.#opened.records.atOneTime(fn)
  }

  #latestMs(): number {
    return this.#seams.nowMs() + requestTimeoutMsMax
  }

  /** Once for all who ask meanwhile; one that failed is begun anew by the next request. */
  #open(untilMs = this.#latestMs()): Promise<Opened> {
    this.#opening ??= this.#openOnce(untilMs).finally(() => {
      this.#opening = null
    })
    return this.#opening
  }

  async #openOnce(untilMs: number): Promise<Opened> {
    if (this.#settings.networkFileSystem === 'refuse') await checkFileSystem(this.#path)
    await checkOneName(this.#path)
    const { tablePrefix } = this.#settings
    const [db, host] = [this.#db, this.#host]
    const bounds = boundsOf('the set-up of its tables', untilMs)
    const store = await openTables(db, this.#seams, bounds, this.#settings, host)
    const records = new Records(db, tablePrefix, host, () => this.#seams)
    const queue = new Queue(db, tablePrefix, host, () => records.nowMs())
    const looks = new SqliteLooks(db, tablePrefix, host, records, queue)
    const wakeUps = new SqliteWakeUps(this.#path, looks, () => this.#seams)
    this.#opened = { source: `sqlite:${store}`, records, queue, wakeUps }
    return this.#opened
  }
}

function boundsOf(what: string, untilMs: number) {
  return { untilMs, what, isOurs: true }
}
