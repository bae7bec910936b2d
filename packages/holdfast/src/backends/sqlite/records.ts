/**
 * The rows of locks, of cancelled owners, and the counter. Every method is one step of a transaction that
 * the caller has begun, except those that say that they only read.
 *
 * D1. A row whose end has come counts as absent wherever it is looked at.
 * D2. Every row has an end, and each grant sweeps a few that have ended, those of one part of the names
 *     after the other, over all processes (`swept_to`). A grant adds one row and looks at four, so the dead
 *     ones stay fewer than those that live.
 * D3. The counter never goes down, and every grant takes a new value of it.
 * D4. Nothing is granted in a file that a process of another kernel has cleared since.
 */
import { prepared, type SqliteDatabase, type SqliteRow } from '../../clients/sqlite.ts'
import { assert } from '../../core/assert.ts'
import type { AcquireRequest, HolderInfo, LockInfo } from '../../core/backend.ts'
import { BackendUnavailableError } from '../../core/errors.ts'
import type { Seams } from '../../core/seams.ts'
import { parseToken } from '../../core/token.ts'
import { CLOCK_GRAIN_MS, type Host, hostMs } from './host.ts'

const SWEPT_PER_GRANT = 4
/** More than one cancel adds, so that they become fewer. */
const SWEPT_PER_CANCEL = 8
/** No attempt is this late: its calls end after seconds, and a stopped process goes on in order. */
const TOMBSTONE_MS = 30_000

const OTHER_KERNEL =
  'a process of another kernel, or whose uptime differs, has opened this file: it is for one host'

const NO_FACTS =
  'the row of facts, with the counter of tokens, is missing from this file: restore it, or begin a new file'

/** A row that has not ended. */
export interface Entry {
  readonly lockName: string
  /** Null: nobody holds it, the name rests after an early release. */
  readonly owner: string | null
  readonly fencingToken: bigint
  readonly endsAtMs: number
  readonly sinceAtMs: number
  readonly lockDelayMs: number
  readonly revokedOwner: string | null
  readonly holder: HolderInfo | null
}

/** What a request for a name finds. */
export interface Found {
  readonly entry: Entry | null
  readonly isCancelled: boolean
  readonly isQueued: boolean
}

const COLUMNS = `lock_name, owner, CAST(fencing_token AS TEXT) AS fencing_token, ends_at_ms,
  since_at_ms, lock_delay_ms, revoked_owner, holder`

export class Records {
  readonly #host: Host
  readonly #seams: () => Seams
  readonly #statements: ReturnType<typeof statementsOf>
  #readMs: number | null = null

  constructor(db: SqliteDatabase, tablePrefix: string, host: Host, seams: () => Seams) {
    this.#host = host
    this.#seams = seams
    this.#statements = statementsOf(db, tablePrefix)
  }

  /** On the clock that entries end by; never ahead of it, and up to 10 ms behind. */
  nowMs(): number {
    return this.#readMs ?? hostMs(this.#host, this.#seams())
  }

  /**
   * One reading of the clock for all of `fn`, which is synchronous: reading it costs as much as a
   * statement, and a request has several. It is never before the request was made, from when its holder
   * counts.
   */
  atOneTime<T>(fn: () => T): T {
    this.#readMs = hostMs(this.#host, this.#seams())
    try {
      return fn()
    } finally {
      this.#readMs = null
    }
  }

  /** Only reads. */
  find(lockName: string, owner: string): Found {
    const nowMs = this.nowMs()
    const row = this.#statements.find.get(owner, nowMs, lockName, nowMs) as SqliteRow
    return {
      entry: row['lock_name'] === null ? null : entryOf(row),
      isCancelled: Boolean(row['is_cancelled']),
      isQueued: Boolean(row['is_queued']),
    }
  }

  /** Only reads. */
  at(lockName: string): Entry | null {
    const row = this.#statements.at.get(this.nowMs(), lockName)
    return row === undefined ? null : entryOf(row as SqliteRow)
  }

  /** Only reads: the held names from `from` on, in the order of their bytes. */
  page(from: string, isAfter: boolean, limit: number): Entry[] {
    const { pageAfter, pageFrom } = this.#statements
    const statement = isAfter ? pageAfter : pageFrom
    const rows = statement.all(from, this.nowMs(), limit)
    return (rows as SqliteRow[]).map(entryOf)
  }

  /** D3. Puts `request` in the place of what the name had. */
  grant(request: AcquireRequest, from?: Pick<Entry, 'endsAtMs' | 'lockDelayMs' | 'owner'>): Entry {
    const { lockName, owner, ttlMs, lockDelayMs, holder } = request
    const seams = this.#seams()
    const granted: Entry = {
      lockName,
      owner,
      fencingToken: this.#nextToken(),
      endsAtMs: from?.endsAtMs ?? this.#endsAtMs(ttlMs),
      sinceAtMs: Math.floor(seams.wallMs()),
      lockDelayMs: from?.lockDelayMs ?? lockDelayMs,
      revokedOwner: from?.owner ?? null,
      holder,
    }
    this.#statements.put.run(
      lockName,
      owner,
      granted.fencingToken,
      granted.endsAtMs,
      granted.sinceAtMs,
      granted.lockDelayMs,
      granted.revokedOwner,
      JSON.stringify(holder),
    )
    return granted
  }

  /** Never shortens. False: the entry is not this owner's. */
  renew(lockName: string, owner: string, ttlMs: number): boolean {
    const { changes } = this.#statements.renew.run(
      this.#endsAtMs(ttlMs),
      lockName,
      owner,
      this.nowMs(),
    )
    return Number(changes) === 1
  }

  /** False: the entry is not this owner's. */
  remove(lockName: string, owner: string): boolean {
    const { changes } = this.#statements.remove.run(lockName, owner, this.nowMs())
    return Number(changes) === 1
  }

  /** Leaves the name taken, by nobody, for so long. False: the entry is not this owner's. */
  rest(lockName: string, owner: string, keepForMs: number): boolean {
    const { changes } = this.#statements.rest.run(
      this.#endsAtMs(keepForMs),
      lockName,
      owner,
      this.nowMs(),
    )
    return Number(changes) === 1
  }

  describe(lockName: string, holder: HolderInfo): void {
    this.#statements.describe.run(JSON.stringify(holder), lockName)
  }

  cancel(owner: string): void {
    this.#statements.cancel.run(owner, this.#endsAtMs(TOMBSTONE_MS))
    this.#statements.sweepCancelled.run(SWEPT_PER_CANCEL, this.nowMs())
  }

  raise(fencingTokenMin: bigint): void {
    const { changes } = this.#statements.raise.run(fencingTokenMin)
    if (Number(changes) !== 1) throw new BackendUnavailableError('down', NO_FACTS)
  }

  /** How long an entry lives at least from now. */
  leftMs({ endsAtMs }: Entry): number {
    return Math.max(0, Math.floor(endsAtMs - CLOCK_GRAIN_MS - this.nowMs()))
  }

  /** When an entry of that end is over at the latest. */
  overInMs(endsAtMs: number): number {
    return Math.max(1, Math.ceil(endsAtMs - this.nowMs()))
  }

  infoOf(entry: Entry): LockInfo {
    return {
      lockName: entry.lockName,
      fencingToken: entry.fencingToken,
      holder: entry.holder,
      foreignOwner: null,
      sinceAtMs: entry.sinceAtMs,
      remainingMs: this.leftMs(entry),
      contenderCount: null,
    }
  }

  #endsAtMs(ttlMs: number): number {
    assert(Number.isFinite(ttlMs), `the engine checks ttlMs, got ${ttlMs}`)
    assert(ttlMs > 0, `the engine checks ttlMs, got ${ttlMs}`)
    return Math.ceil(this.nowMs() + ttlMs) + CLOCK_GRAIN_MS
  }

  /** D2 and D3. The wall clock in microseconds as a floor lets tokens rise over a file that is lost. */
  #nextToken(): bigint {
    const floor = BigInt(Math.floor(this.#seams().wallMs() * 1000))
    const { count, meta, some, sweep } = this.#statements
    count.run(floor)
    const next = meta.get() as SqliteRow | undefined
    if (next === undefined) throw new BackendUnavailableError('down', NO_FACTS)
    const fencingToken = parseToken(String(next['counter']))
    assert(fencingToken !== null, 'the counter is a token')
    const { bootId, clockId } = this.#host
    if (next['boot_id'] !== bootId || next['clock_id'] !== clockId) {
      throw new BackendUnavailableError('no-permission', OTHER_KERNEL)
    }
    const sweptTo = String(next['swept_to'])
    const rows = some.all(sweptTo, SWEPT_PER_GRANT) as SqliteRow[]
    for (const row of rows) {
      if (Number(row['ends_at_ms']) <= this.nowMs()) sweep.run(row['lock_name'])
    }
    const last = rows.length < SWEPT_PER_GRANT ? '' : String(rows.at(-1)?.['lock_name'])
    if (last !== sweptTo) this.#statements.sweptTo.run(last)
    return fencingToken
  }
}

function statementsOf(db: SqliteDatabase, p: string) {
  const live = 'ends_at_ms > ?'
  const own = `lock_name = ? AND owner = ? AND ${live}`
  const page = (order: string): string =>
    `SELECT ${COLUMNS} FROM ${p}locks WHERE lock_name ${order} ? AND owner IS NOT NULL AND ${live}
     ORDER BY lock_name LIMIT ?`
  const sql = {
    find: `SELECT ${COLUMNS},
      EXISTS (SELECT 1 FROM ${p}cancelled WHERE owner = ? AND ${live}) AS is_cancelled,
      EXISTS (SELECT 1 FROM ${p}queue WHERE lock_name = asked) AS is_queued
      FROM (SELECT ? AS asked) LEFT JOIN ${p}locks ON lock_name = asked AND ${live}`,
    at: `SELECT ${COLUMNS} FROM ${p}locks WHERE ${live} AND lock_name = ?`,
    pageFrom: page('>='),
    pageAfter: page('>'),
    // Read by another statement: for RETURNING SQLite makes a table in memory, at 15 times the price.
    count: `UPDATE ${p}meta SET counter = max(counter + 1, ?)`,
    meta: `SELECT CAST(counter AS TEXT) AS counter, swept_to, boot_id, clock_id FROM ${p}meta`,
    sweptTo: `UPDATE ${p}meta SET swept_to = ?`,
    raise: `UPDATE ${p}meta SET counter = max(counter, ?)`,
    put: `INSERT OR REPLACE INTO ${p}locks VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
    renew: `UPDATE ${p}locks SET ends_at_ms = max(ends_at_ms, ?) WHERE ${own}`,
    remove: `DELETE FROM ${p}locks WHERE ${own}`,
    rest: `UPDATE ${p}locks SET owner = NULL, holder = NULL, ends_at_ms = ? WHERE ${own}`,
    describe: `UPDATE ${p}locks SET holder = ? WHERE lock_name = ?`,
    some: `SELECT lock_name, ends_at_ms FROM ${p}locks WHERE lock_name > ? ORDER BY lock_name LIMIT ?`,
    sweep: `DELETE FROM ${p}locks WHERE lock_name = ?`,
    cancel: `INSERT OR REPLACE INTO ${p}cancelled (owner, ends_at_ms) VALUES (?, ?)`,
    sweepCancelled: `DELETE FROM ${p}cancelled WHERE place IN
      (SELECT place FROM ${p}cancelled ORDER BY place LIMIT ?) AND ends_at_ms <= ?`,
  }
  const entries = Object.entries(sql).map(([name, text]) => [name, prepared(db, text)])
  return Object.fromEntries(entries) as Record<keyof typeof sql, ReturnType<typeof prepared>>
}

function entryOf(row: SqliteRow): Entry {
  const fencingToken = parseToken(String(row['fencing_token']))
  assert(fencingToken !== null, 'the table takes tokens only')
  const text = (column: string): string | null => {
    const value = row[column]
    return typeof value === 'string' ? value : null
  }
  const holder = text('holder')
  return {
    lockName: String(row['lock_name']),
    owner: text('owner'),
    fencingToken,
    endsAtMs: Number(row['ends_at_ms']),
    sinceAtMs: Number(row['since_at_ms']),
    lockDelayMs: Number(row['lock_delay_ms']),
    revokedOwner: text('revoked_owner'),
    holder: holder === null ? null : (JSON.parse(holder) as HolderInfo),
  }
}
