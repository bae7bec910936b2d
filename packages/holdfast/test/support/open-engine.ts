/** An engine on the virtual clock, over a memory store that a test can trouble. */
import { type MemoryLimits, memoryBackendWith } from '../../src/backends/memory/memory.ts'
import type { Backend } from '../../src/core/backend.ts'
import type { Capabilities } from '../../src/core/capabilities.ts'
import type { LockErrorCode } from '../../src/core/errors.ts'
import type { LockEvents } from '../../src/core/events.ts'
import type { Locks, LocksOptions } from '../../src/core/lease.ts'
import type { Seams } from '../../src/core/seams.ts'
import { createLocksWith } from '../../src/lock/lock.ts'
import {
  createVirtualClock,
  seamsOf,
  type VirtualClock,
  type VirtualClockOptions,
} from '../../src/testkit/virtual-clock.ts'
import { FaultyBackend } from './faulty-backend.ts'

export interface Told {
  readonly type: keyof LockEvents
  readonly atMs: number
  readonly lockName: string
  readonly fencingToken: bigint | null
  /** Of a loss. */
  readonly reason: string | null
}

export interface Engine {
  readonly locks: Locks
  /** Between the engine and the store. */
  readonly backend: FaultyBackend
  /** Every event but `refused`, in order. */
  readonly told: Told[]
  /** The types of the events of one lock name, in order. */
  typesOf(lockName: string): string[]
}

export interface World {
  readonly clock: VirtualClock
  /** The store as it is, without any fault. */
  readonly store: Backend
  /** How many armed timers would keep a process running. */
  keepingAlive(): number
  /** Another process, as the store sees it. */
  engine(options?: EngineOptions): Engine
}

export interface EngineOptions {
  readonly defaults?: LocksOptions
  readonly without?: readonly ('handOver' | 'wakeUp')[]
  /** The shortest TTL that the engine takes; 100 by default, as in public. */
  readonly ttlMsFloor?: number
  /** What the backend says of itself instead, true or not. */
  readonly claims?: Partial<Capabilities>
}

export function openWorld(clockOptions?: VirtualClockOptions, limits?: MemoryLimits): World {
  const clock = createVirtualClock(clockOptions)
  const { seams, keepingAlive } = countingTimers(seamsOf(clock))
  const store = memoryBackendWith(seams, limits)
  return {
    clock,
    store,
    keepingAlive,
    engine: ({ defaults, without = [], ttlMsFloor, claims = {} } = {}) => {
      const capabilities = { ...store.capabilities, ...claims }
      const backend = new FaultyBackend(store, () => clock.nowMs(), without)
      Object.assign(backend, { capabilities })
      const locks = createLocksWith(seams, backend, defaults, ttlMsFloor)
      const told = listen(locks, clock)
      return {
        locks,
        backend,
        told,
        typesOf: (lockName) =>
          told.filter((event) => event.lockName === lockName).map((event) => event.type),
      }
    },
  }
}

function countingTimers(inner: Seams): { seams: Seams; keepingAlive: () => number } {
  const armed = new Set<object>()
  const after: Seams['after'] = (delayMs, fn, keepsAlive = false) => {
    const timer = {}
    if (keepsAlive) armed.add(timer)
    const cancel = inner.after(delayMs, () => {
      armed.delete(timer)
      fn()
    })
    return () => {
      armed.delete(timer)
      cancel()
    }
  }
  return { seams: { ...inner, after }, keepingAlive: () => armed.size }
}

const TYPES = [
  'acquired',
  'renewed',
  'renewal-failed',
  'lost',
  'released',
  'release-failed',
  'cancelled',
] as const

function listen(locks: Locks, clock: VirtualClock): Told[] {
  const told: Told[] = []
  for (const type of TYPES) {
    locks.on(type, (event) => {
      told.push({
        type,
        atMs: clock.nowMs(),
        lockName: event.lockName,
        fencingToken: 'fencingToken' in event ? event.fencingToken : null,
        reason: 'reason' in event ? event.reason : null,
      })
    })
  }
  return told
}

/** What a promise came to, so that a test can look at it while time stands still. */
export interface Watched<T> {
  state: 'pending' | 'resolved' | 'rejected'
  value?: T
  error?: unknown
  /** On the clock of the test. */
  atMs?: number
}

export function watch<T>(clock: VirtualClock, promise: Promise<T>): Watched<T> {
  const watched: Watched<T> = { state: 'pending' }
  promise.then(
    (value) => Object.assign(watched, { state: 'resolved', value, atMs: clock.nowMs() }),
    (error) => Object.assign(watched, { state: 'rejected', error, atMs: clock.nowMs() }),
  )
  return watched
}

/** The code of what a call rejected with; the value itself if it is no error of ours. */
export async function codeOf(promise: Promise<unknown>): Promise<LockErrorCode | unknown> {
  try {
    await promise
    return 'resolved'
  } catch (error) {
    return (error as { code?: unknown } | null)?.code ?? error
  }
}

/**
 * Long enough for every timer that has work left: an undo's last try is 30 s away at most. What is
 * armed after it will never end by itself.
 */
export async function timersLeft(clock: VirtualClock): Promise<number> {
  await clock.advance(300_000)
  return clock.pendingCount
}
