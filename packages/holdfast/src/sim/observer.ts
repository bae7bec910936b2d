/**
 * Looks at every lease after each event of its process.
 *
 * Asking a lease for its validity makes it notice its own end. So it is asked only while its last
 * answer says that it is valid still, or when it should long have noticed by itself. What the look
 * changes is that a step of the wall clock may bring a renewal forward, as any look of the holder's does.
 */
import type { Lease } from '../core/lease.ts'
import type { HeldRecord, History } from './history.ts'
import type { Process } from './process.ts'

/** After a sleep a lease counts by a clock of this grain: its end may be told later by as much. */
const BOOT_GRAIN_MS = 10
/** The boot clock has its grain at either end, and 20 ms more than the monotonic one are no sleep to it. */
const UNSEEN_SLEEP_MS = 30
/** A lease that has not noticed its end by then, its process running, is asked. */
const PATIENCE_MS = 60

interface Watched {
  readonly lease: Lease
  readonly signal: AbortSignal
  readonly process: Process
  readonly record: HeldRecord
  /** What its machine had slept by the last look. */
  sleptMs: number
  isOver: boolean
}

/** A name as those see it who wait for it. */
interface Name {
  readonly waiters: Set<Readonly<{ process: Process }>>
  readonly held: Set<HeldRecord>
  freeSinceMs: number | null
}

export class Observer {
  readonly #history: History
  readonly #watched: Watched[] = []
  readonly #names = new Map<string, Name>()

  constructor(history: History) {
    this.#history = history
  }

  granted(process: Process, lease: Lease): HeldRecord {
    const nowMs = process.scheduler.nowMs
    const record: HeldRecord = {
      process: process.name,
      lockName: lease.lockName,
      token: lease.fencingToken,
      beganAtMs: process.bornAtMs.get(lease.owner) ?? nowMs,
      heldFromMs: nowMs,
      validUntilMs: nowMs + lease.remainingMs() / process.rate,
      isRevived: false,
      signalLateMs: 0,
    }
    this.#history.held.push(record)
    this.#history.holders.add(lease.owner)
    this.#nameOf(lease.lockName).held.add(record)
    const { sleptMs } = process
    this.#watched.push({ lease, signal: lease.signal, process, record, sleptMs, isOver: false })
    return record
  }

  /** The holder gives it back, in this very event. */
  released(record: HeldRecord, nowMs: number): void {
    record.validUntilMs = Math.min(record.validUntilMs, nowMs)
    const place = this.#watched.findIndex((watched) => watched.record === record)
    if (place >= 0) this.#watched.splice(place, 1)
  }

  /** @returns What ends the wait. */
  waits(process: Process, lockName: string): () => void {
    const { waiters } = this.#nameOf(lockName)
    const waiter = { process }
    waiters.add(waiter)
    return () => void waiters.delete(waiter)
  }

  /** Nobody waits any more: what comes later is no neglect. */
  stopWaiting(): void {
    this.#names.clear()
  }

  look(nowMs: number): void {
    for (const watched of this.#watched) {
      const { process, record } = watched
      if (process.isDead) record.validUntilMs = Math.min(record.validUntilMs, nowMs)
      else if (process.isAwake) this.#look(watched, nowMs)
    }
    for (const [lockName, name] of this.#names) this.#noteFree(lockName, name, nowMs)
  }

  #nameOf(lockName: string): Name {
    const known = this.#names.get(lockName)
    if (known !== undefined) return known
    const fresh: Name = { waiters: new Set(), held: new Set(), freeSinceMs: null }
    this.#names.set(lockName, fresh)
    return fresh
  }

  #noteFree(lockName: string, name: Name, nowMs: number): void {
    for (const record of name.held) if (record.validUntilMs <= nowMs) name.held.delete(record)
    const isWaitedFor = [...name.waiters].some(({ process }) => process.isAwake)
    if (name.held.size > 0 || !isWaitedFor) {
      name.freeSinceMs = null
      return
    }
    name.freeSinceMs ??= nowMs
    const { longestFreeMs } = this.#history
    const forMs = nowMs - name.freeSinceMs
    if (forMs > (longestFreeMs.get(lockName) ?? 0)) longestFreeMs.set(lockName, forMs)
  }

  #look(watched: Watched, nowMs: number): void {
    const { lease, signal, process, record } = watched
    this.#noteSleep(watched, nowMs)
    if (watched.isOver) {
      if (lease.isHeld) record.isRevived = true
      return
    }
    if (signal.aborted) {
      watched.isOver = true
      // Its holder was told in this event, and is told nothing else by a look at it.
      const knewAtMs = Math.min(record.validUntilMs, nowMs)
      this.#noteLate(watched, nowMs)
      record.validUntilMs = knewAtMs
      return
    }
    const graceMs = process.wasSuspended ? BOOT_GRAIN_MS : 0
    if (nowMs < record.validUntilMs + graceMs) {
      const restMs = lease.remainingMs()
      const isValid = restMs > 0 || nowMs < record.validUntilMs
      if (isValid) record.validUntilMs = nowMs + restMs / process.rate
      return
    }
    const overForMs = nowMs - Math.max(record.validUntilMs, process.awakeSinceMs)
    if (overForMs < PATIENCE_MS) return
    this.#noteLate(watched, nowMs)
    watched.isOver = true
    if (lease.isHeld) record.isRevived = true
  }

  /** A sleep that a lease may not see moves its end, by its own clock, and is no revival. */
  #noteSleep(watched: Watched, nowMs: number): void {
    const { process, record } = watched
    const sleptMs = process.sleptMs - watched.sleptMs
    watched.sleptMs = process.sleptMs
    const wasValid = nowMs - sleptMs < record.validUntilMs
    if (wasValid && sleptMs < UNSEEN_SLEEP_MS) record.validUntilMs += sleptMs
  }

  /** A sleep of the machine moves timers by as long as it took: then only `assertValid` is right. */
  #noteLate({ process, record }: Watched, nowMs: number): void {
    if (process.wasSuspended) return
    const fromMs = Math.max(record.validUntilMs, process.awakeSinceMs)
    record.signalLateMs = Math.max(record.signalLateMs, nowMs - fromMs)
  }
}
