/**
 * Contenders that sleep until a name may be free; one watcher and one timer for all names of a backend.
 *
 * SQLite tells a process nothing of what another one commits. `PRAGMA data_version` says whether
 * anybody did, for a few microseconds, and a watcher on the folder says when to look: the log is written
 * before a commit is visible, so after an event it is looked at every millisecond, slower the longer
 * nothing follows. For each page of a commit the kernel has events, and wakes all processes that watch:
 * eight of them spent most of a core on that. So while commits follow each other nobody watches, and the
 * poll sees them; and whoever has others before it in the queue looks later by a millisecond for each.
 *
 * Guarantees:
 * W1. No release is missed between a refusal and the sleep: whoever lies down is looked at once.
 * W2. Woken is whoever may get the name: it is free, and nobody else who lives is first in its queue. An
 *     entry that ends by itself is looked at when it does: its holder may be dead, and commits nothing.
 * W3. The poll is the guarantee: without a watcher (inotify has none left, or the platform none) a commit
 *     is seen within 20 ms, with one that is silent within 100 ms.
 * W4. A look is at most 200 names, so that it does not hold the event loop; the rest are next.
 * W5. Where nobody sleeps there is no timer, and a second later no watcher. Nothing here keeps the process
 *     running, and nothing rejects: when the database cannot be read all are woken, and learn why.
 */
import { type FSWatcher, watch } from 'node:fs'
import { basename, dirname } from 'node:path'
import type { CancelTimer } from '../../core/clock.ts'
import type { Seams } from '../../core/seams.ts'

const HOT_MS = 30
const HOT_POLL_MS = 1
/** So long after the last change the watcher is back. */
const STILL_MS = 8
/** The poll is late by so much of the time in which nothing changed. */
const STILL_SHARE = 0.25
/** For each place before ours: few hold a name for less. */
const AHEAD_MS = 1
const POLL_MS = 20
const WATCHED_POLL_MS = 100
const LINGER_MS = 1000
/** Where a watcher is not to be had, it is not asked for at every sleep. */
const WATCH_AGAIN_MS = 5000
const NAMES_PER_LOOK = 200

/** What a look at sleeping names finds. */
export interface Looks {
  /** Changes when another connection commits. */
  version(): number
  free(names: readonly string[]): Free
}

/** Which of the names are free for one of ours, and which for another that lives. */
export interface Free {
  readonly ours: readonly string[]
  readonly others: readonly string[]
  /** Until the first of those ends that are held, by itself and without a commit; Infinity: none is. */
  readonly endsInMs: number
  /** How many places of others are before ours, where they are the fewest. */
  readonly ahead: number
}

export class SqliteWakeUps {
  readonly #path: string
  readonly #looks: Looks
  readonly #seams: () => Seams
  readonly #sleepers = new Map<string, Set<() => void>>()
  /** Names that a change may concern, and that were not looked at since. */
  readonly #due = new Set<string>()
  /** Names that are free, but for somebody else first: they may be passed over without a commit. */
  readonly #blocked = new Set<string>()
  /** When the first of the held names ends that were looked at. */
  #endsAtMs = Number.POSITIVE_INFINITY
  #version = Number.NaN
  /** Of the last change or event that was seen. */
  #stirredAtMs = Number.NEGATIVE_INFINITY
  #cancelTick: CancelTimer | null = null
  #tickAtMs = Number.POSITIVE_INFINITY
  /** How long after a look another one is of use, unless something ends. */
  #restMs = 0
  #watcher: FSWatcher | null = null
  #watchFromMs = Number.NEGATIVE_INFINITY
  #cancelLinger: CancelTimer | null = null
  #closed = false

  constructor(path: string, looks: Looks, seams: () => Seams) {
    this.#path = path
    this.#looks = looks
    this.#seams = seams
  }

  /** Resolves when asking for the name may be worth while, or when `signal` aborts. */
  sleep(lockName: string, signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      if (signal.aborted) return resolve()
      const sleepers = this.#sleepers.get(lockName) ?? new Set()
      this.#sleepers.set(lockName, sleepers)
      const end = (): void => {
        signal.removeEventListener('abort', end)
        sleepers.delete(end)
        if (sleepers.size === 0) this.#forget(lockName)
        resolve()
      }
      sleepers.add(end)
      signal.addEventListener('abort', end)
      // Waking those who come after the close would make them ask without a pause.
      if (this.#closed) return
      if (this.#stillMs() >= STILL_MS) this.#watch()
      // W1.
      this.#due.add(lockName)
      this.#tickIn(0)
    })
  }

  /** This process itself changed something, which `version` does not show. */
  changed(lockName: string): void {
    if (!this.#sleepers.has(lockName)) return
    this.#due.add(lockName)
    this.#tickIn(0)
  }

  /** Wakes everybody. */
  close(): void {
    this.#closed = true
    this.#wakeAll()
    this.#unwatch()
  }

  #wake(lockName: string): void {
    for (const end of [...(this.#sleepers.get(lockName) ?? [])]) end()
  }

  #wakeAll(): void {
    for (const lockName of [...this.#sleepers.keys()]) this.#wake(lockName)
  }

  #forget(lockName: string): void {
    this.#sleepers.delete(lockName)
    this.#due.delete(lockName)
    this.#blocked.delete(lockName)
    if (this.#sleepers.size > 0) return
    this.#cancelTick?.()
    this.#cancelTick = null
    this.#tickAtMs = this.#endsAtMs = Number.POSITIVE_INFINITY
    // Whoever is refused sleeps again soon.
    this.#cancelLinger ??= this.#seams().after(LINGER_MS, () => {
      this.#cancelLinger = null
      if (this.#sleepers.size === 0) this.#unwatch()
    })
  }

  #tickIn(delayMs: number): void {
    const atMs = this.#seams().nowMs() + delayMs
    if (this.#tickAtMs <= atMs) return
    this.#cancelTick?.()
    this.#tickAtMs = atMs
    this.#cancelTick = this.#seams().after(delayMs, () => {
      this.#cancelTick = null
      this.#tickAtMs = Number.POSITIVE_INFINITY
      this.#tick()
    })
  }

  #tick(): void {
    try {
      this.#look()
    } catch {
      // They ask instead, and are told what is wrong with the database.
      this.#wakeAll()
    }
    if (this.#sleepers.size === 0) return
    const pollMs = this.#pollMs()
    const endsInMs = this.#endsAtMs - this.#seams().nowMs()
    this.#tickIn(Math.min(pollMs, Math.max(endsInMs, HOT_POLL_MS)))
  }

  #stillMs(): number {
    return this.#seams().nowMs() - this.#stirredAtMs
  }

  #pollMs(): number {
    if (this.#due.size > 0) return HOT_POLL_MS
    const stillMs = this.#stillMs()
    if (stillMs >= STILL_MS && this.#watcher === null) {
      this.#watch()
      // What was committed before the watcher stood made no event.
      if (this.#watcher !== null) return HOT_POLL_MS
    }
    if (stillMs < HOT_MS) return Math.max(HOT_POLL_MS, this.#restMs, STILL_SHARE * stillMs)
    return this.#watcher === null ? POLL_MS : WATCHED_POLL_MS
  }

  #look(): void {
    const version = this.#looks.version()
    const nowMs = this.#seams().nowMs()
    const isChanged = version !== this.#version
    if (isChanged && !Number.isNaN(this.#version)) this.#stirredAtMs = nowMs
    if (isChanged || nowMs >= this.#endsAtMs) {
      this.#version = version
      this.#endsAtMs = Number.POSITIVE_INFINITY
      for (const lockName of this.#sleepers.keys()) this.#due.add(lockName)
    }
    for (const lockName of this.#blocked) this.#due.add(lockName)
    if (this.#due.size === 0) return
    const names: string[] = []
    for (const lockName of this.#due) {
      if (names.length === NAMES_PER_LOOK) break
      names.push(lockName)
    }
    const { ours, others, endsInMs, ahead } = this.#looks.free(names)
    // Of names that were not looked at we may be first.
    this.#restMs = names.length < this.#sleepers.size ? 0 : AHEAD_MS * ahead
    this.#endsAtMs = Math.min(this.#endsAtMs, nowMs + endsInMs)
    for (const lockName of names) {
      this.#due.delete(lockName)
      this.#blocked.delete(lockName)
    }
    for (const lockName of others) this.#blocked.add(lockName)
    for (const lockName of ours) this.#wake(lockName)
  }

  #watch(): void {
    this.#cancelLinger?.()
    this.#cancelLinger = null
    if (this.#watcher !== null || this.#seams().nowMs() < this.#watchFromMs) return
    try {
      const name = basename(this.#path)
      const watcher = watch(dirname(this.#path), { persistent: false }, (_event, changed) => {
        if (changed === null || changed.startsWith(name)) this.#onEvent()
      })
      watcher.on('error', () => {
        if (this.#watcher === watcher) this.#unwatch()
        this.#watchFromMs = this.#seams().nowMs() + WATCH_AGAIN_MS
      })
      this.#watcher = watcher
    } catch {
      // W3: the poll does without.
      this.#watchFromMs = this.#seams().nowMs() + WATCH_AGAIN_MS
    }
  }

  #unwatch(): void {
    this.#cancelLinger?.()
    this.#cancelLinger = null
    this.#watcher?.close()
    this.#watcher = null
  }

  /** The poll sees what follows. */
  #onEvent(): void {
    this.#unwatch()
    if (this.#sleepers.size === 0) return
    this.#stirredAtMs = this.#seams().nowMs()
    this.#tickIn(HOT_POLL_MS)
  }
}
