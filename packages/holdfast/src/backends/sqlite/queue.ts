/**
 * Who waits for a name, over all processes, in the order in which they came. One place for each name
 * and waiter; within a waiter the engine keeps the order.
 *
 * Q1. Only the first in the queue is granted a free name; whoever asks without waiting is not either
 *     while somebody waits.
 * Q2. A waiter that is known to be dead is passed over at once; one that is stopped, or of which nothing
 *     can be known, when its heartbeat ends: 2 s after its process last wrote it, at most.
 * Q3. A place that is kept by asking costs a write every half second, not one for each time; and one write
 *     keeps all places whose waiters have asked through this connection of late. Nobody keeps a place
 *     of which nothing else is known: a thread that was ended leaves one of this very process.
 */
import { prepared, type SqliteDatabase, type SqliteRow } from '../../clients/sqlite.ts'
import { CLOCK_GRAIN_MS, type Host, isDead } from './host.ts'

/** Waiters ask again after 1.25 s at the latest. */
const HEARTBEAT_MS = 2000
/** With less left, the heartbeat is renewed: what is left suffices until the next ask. */
const RENEW_BELOW_MS = 1500
/** Places that are looked at together, and how often: some milliseconds, and more than processes wait. */
const PAGE = 64
const PAGES_MAX = 16
/** What was kept this short a time ago is not written again. */
const KEEP_BELOW_MS = 1750
/** Some milliseconds of work; more places than these are written for themselves. */
const KEPT_MAX = 500
/** A sleeper looks at the first in its queue at every commit; the kernel is asked for it not each time. */
const SEEN_ALIVE_MS = 20
const SEEN_ALIVE_MAX = 1000
/** One ask adds at most one place. */
const SWEPT_PER_ASK = 4

export interface Place {
  readonly place: number
  readonly waiter: string
  readonly endsAtMs: number
  /** Its waiter asks through this connection, and so is woken here. */
  readonly isOurs: boolean
}

interface Asker {
  readonly lockName: string
  readonly waiter: string
  readonly askedAtMs: number
}

export class Queue {
  readonly #host: Host
  readonly #nowMs: () => number
  readonly #statements: ReturnType<typeof statementsOf>
  /** Who was refused here of late; the longest ago comes first. */
  readonly #askers = new Map<string, Asker>()
  /** By place: when the kernel last said that its process lives. */
  readonly #seenAlive = new Map<number, number>()

  /** @param nowMs On the clock that entries end by. */
  constructor(db: SqliteDatabase, tablePrefix: string, host: Host, nowMs: () => number) {
    this.#host = host
    this.#nowMs = nowMs
    this.#statements = statementsOf(db, tablePrefix)
  }

  /** Only reads: whether this waiter, who asks, has a place that will last until it asks again. */
  isKept(lockName: string, waiter: string): boolean {
    this.#note(lockName, waiter)
    const row = this.#statements.ends.get(lockName, waiter) as SqliteRow | undefined
    return row !== undefined && Number(row['ends_at_ms']) - this.#nowMs() >= RENEW_BELOW_MS
  }

  /** Gives the waiter, who asks, the last place, or keeps the one that it has; Q3. */
  stand(lockName: string, waiter: string): void {
    const { pid, startedAt, pidNamespace } = this.#host
    const nowMs = this.#nowMs()
    const endsAtMs = Math.ceil(nowMs) + HEARTBEAT_MS + CLOCK_GRAIN_MS
    this.#keep(nowMs, endsAtMs)
    this.#note(lockName, waiter)
    this.#statements.stand.run(lockName, waiter, pid, startedAt, pidNamespace, endsAtMs)
    // Of names for which nobody asks any more.
    this.#statements.sweep.run(nowMs, SWEPT_PER_ASK)
  }

  /** This waiter asks no more; what a failing write leaves behind ends by itself. */
  forget(lockName: string, waiter: string): void {
    this.#askers.delete(keyOf(lockName, waiter))
  }

  leave(lockName: string, waiter: string): boolean {
    this.forget(lockName, waiter)
    return Number(this.#statements.leave.run(lockName, waiter).changes) > 0
  }

  /** The first that may live, other than `waiter`; those before it are removed (Q2). */
  firstOther(lockName: string, waiter: string): Place | null {
    return this.#first(lockName, waiter, true)
  }

  /** The first that may live; those before it are removed (Q2). */
  first(lockName: string): Place | null {
    return this.#first(lockName, '', true)
  }

  /** Only reads: the first that may live, or did 20 ms ago. */
  look(lockName: string): Place | null {
    return this.#first(lockName, '', false)
  }

  #first(lockName: string, except: string, removes: boolean): Place | null {
    const { all, remove } = this.#statements
    let last = 0
    for (let page = 0; page < PAGES_MAX; page++) {
      const rows = all.all(lockName, except, last, PAGE) as SqliteRow[]
      for (const row of rows) {
        last = Number(row['place'])
        if (!this.#isOver(last, row, removes)) return this.#placeOf(last, lockName, row)
        if (removes) remove.run(last)
      }
      if (rows.length < PAGE) break
    }
    return null
  }

  #isOver(place: number, row: SqliteRow, isAsked: boolean): boolean {
    const nowMs = this.#nowMs()
    if (Number(row['ends_at_ms']) <= nowMs) return true
    const seenAtMs = this.#seenAlive.get(place)
    if (!isAsked && seenAtMs !== undefined && nowMs - seenAtMs < SEEN_ALIVE_MS) return false
    const isOver = isDead(this.#host, {
      pid: Number(row['pid']),
      startedAt: String(row['started_at']),
      pidNamespace: String(row['pid_namespace']),
    })
    if (this.#seenAlive.size >= SEEN_ALIVE_MAX) this.#seenAlive.clear()
    if (!isOver) this.#seenAlive.set(place, nowMs)
    return isOver
  }

  #placeOf(place: number, lockName: string, row: SqliteRow): Place {
    const waiter = String(row['waiter'])
    const asker = this.#askers.get(keyOf(lockName, waiter))
    return {
      place,
      waiter,
      endsAtMs: Number(row['ends_at_ms']),
      isOurs: asker !== undefined && this.#asks(asker),
    }
  }

  #note(lockName: string, waiter: string): void {
    const key = keyOf(lockName, waiter)
    this.#askers.delete(key)
    this.#askers.set(key, { lockName, waiter, askedAtMs: this.#nowMs() })
    for (const [first, asker] of this.#askers) {
      if (this.#asks(asker)) break
      this.#askers.delete(first)
    }
  }

  /** Whether it is not overdue. */
  #asks({ askedAtMs }: Asker): boolean {
    return this.#nowMs() - askedAtMs < RENEW_BELOW_MS
  }

  #keep(nowMs: number, endsAtMs: number): void {
    const places: (readonly [string, string])[] = []
    for (const asker of this.#askers.values()) {
      if (places.length === KEPT_MAX) break
      if (this.#asks(asker)) places.push([asker.lockName, asker.waiter])
    }
    if (places.length === 0) return
    const belowMs = Math.ceil(nowMs) + KEEP_BELOW_MS
    this.#statements.keep.run(endsAtMs, JSON.stringify(places), Math.ceil(nowMs), belowMs)
  }
}

/** A waiter has no blank. */
function keyOf(lockName: string, waiter: string): string {
  return `${waiter} ${lockName}`
}

function statementsOf(db: SqliteDatabase, p: string) {
  return {
    ends: prepared(db, `SELECT ends_at_ms FROM ${p}queue WHERE lock_name = ? AND waiter = ?`),
    stand: prepared(
      db,
      `INSERT INTO ${p}queue
        (lock_name, waiter, pid, started_at, pid_namespace, ends_at_ms)
        VALUES (?, ?, ?, ?, ?, ?)
        ON CONFLICT (lock_name, waiter) DO UPDATE SET ends_at_ms = excluded.ends_at_ms`,
    ),
    // What has ended stays ended: whoever slept through its heartbeat has lost its place.
    keep: prepared(
      db,
      `UPDATE ${p}queue SET ends_at_ms = ? WHERE place IN (SELECT place FROM json_each(?) AS asker
        CROSS JOIN ${p}queue ON lock_name = asker.value ->> 0 AND waiter = asker.value ->> 1)
        AND ends_at_ms > ? AND ends_at_ms < ?`,
    ),
    leave: prepared(db, `DELETE FROM ${p}queue WHERE lock_name = ? AND waiter = ?`),
    all: prepared(
      db,
      `SELECT place, waiter, pid, started_at, pid_namespace, ends_at_ms FROM ${p}queue
        WHERE lock_name = ? AND waiter <> ? AND place > ? ORDER BY place LIMIT ?`,
    ),
    remove: prepared(db, `DELETE FROM ${p}queue WHERE place = ?`),
    sweep: prepared(
      db,
      `DELETE FROM ${p}queue WHERE place IN
        (SELECT place FROM ${p}queue WHERE ends_at_ms <= ? LIMIT ?)`,
    ),
  }
}
