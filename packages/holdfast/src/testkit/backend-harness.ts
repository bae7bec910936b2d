/** What the backend suite needs to know, and the store that each of its checks is given. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { AcquireRequest, AcquireResult, Backend, Grant } from '../core/backend.ts'
import { monotonicMs } from '../core/clock.ts'
import { LockError } from '../core/errors.ts'
import { randomOwner } from '../core/owner.ts'
import { type Seams, systemSeams } from '../core/seams.ts'
import { seamsOf, type VirtualClock } from './virtual-clock.ts'

/** What a suite needs of a runner; `node:test` and vitest both have it. */
export interface TestRunner {
  describe(title: string, body: () => void): unknown
  it(title: string, body: (test: { skip(reason: string): void }) => Promise<void>): unknown
}

/** Two backends on one store, a connection each: two processes, as the store sees it. */
export interface OpenBackends {
  readonly ours: Backend
  readonly theirs: Backend
  /** The clock of a store that lives on virtual time; without one the suite waits in real time. */
  readonly clock?: VirtualClock | undefined
  /**
   * Lists what would never end by itself, where the store can be looked into: keys, rows or nodes
   * of locks, marks and cancelled owners; not the counters that tokens are drawn from.
   */
  readonly withoutEnd?: (() => Promise<readonly string[]>) | undefined
  close(): Promise<void>
}

/** What `testBackend` needs to know of a store and how to open it. */
export interface BackendHarness {
  /** Begins the title of the suite, for example `redis 7.0`. */
  readonly title: string
  /** The shortest TTL to wait for, in milliseconds: 50 does for Redis, etcd needs 1000. */
  readonly ttlMsMin: number
  /**
   * How far what the store says of a time may be off, in milliseconds: 2 by default, because both sides
   * round; more where the store's clock counts in steps.
   */
  readonly roundingMs?: number
  /** Called once for each check; checks do not share names, so that they may share a store. */
  readonly open: () => Promise<OpenBackends>
}

/** Outlives every check, on a busy machine too. Milliseconds. */
export const LONG_MS = 60_000
/** What must come to pass comes within this, or the check fails. Real or virtual milliseconds. */
export const PATIENCE_MS = 25_000
const POLL_MS = 5
/** Both sides round to milliseconds. */
const ROUNDING_MS = 2

export interface Store {
  readonly ours: Backend
  readonly theirs: Backend
  readonly seams: Seams
  readonly clock: VirtualClock | undefined
  /** Short enough to wait for its end. */
  readonly ttlMs: number
  readonly roundingMs: number
  /** A name of this check alone. */
  readonly lockName: string
  nowMs(): number
  /** Lets time pass. */
  lapse(ms: number): Promise<void>
  /** Waits for `promise`, in virtual time by letting it pass; rejects when patience ends. */
  settled<T>(promise: Promise<T>, what: string): Promise<T>
}

/** Registers one property. The title is a sentence of the contract. */
export type Check = (
  title: string,
  body: (store: Store, skip: (reason: string) => void) => Promise<void>,
) => void

export function checksOf({ it }: TestRunner, harness: BackendHarness): Check {
  return (title, body) => {
    it(title, async (test) => {
      const open = await harness.open()
      try {
        await body(storeOf(harness, open), (reason) => test.skip(reason))
        const withoutEnd = (await open.withoutEnd?.()) ?? []
        if (withoutEnd.length > 0) throw new Error(`would never end: ${withoutEnd.join(', ')}`)
      } finally {
        await open.close()
      }
    })
  }
}

function storeOf(harness: BackendHarness, { ours, theirs, clock }: OpenBackends): Store {
  const lapse = (ms: number): Promise<void> => (clock ? clock.advance(ms) : sleep(ms))
  const nowMs = (): number => (clock ? clock.nowMs() : monotonicMs())
  return {
    ours,
    theirs,
    seams: clock ? seamsOf(clock) : systemSeams,
    clock,
    ttlMs: harness.ttlMsMin,
    roundingMs: harness.roundingMs ?? ROUNDING_MS,
    lockName: `suite:${randomOwner()}`,
    nowMs,
    lapse,
    async settled(promise, what) {
      let isSettled = false
      const note = (): void => {
        isSettled = true
      }
      promise.then(note, note)
      const untilMs = nowMs() + PATIENCE_MS
      while (!isSettled) {
        if (nowMs() > untilMs) throw new Error(`not within ${PATIENCE_MS} ms: ${what}`)
        await lapse(POLL_MS)
      }
      return promise
    },
  }
}

export function request(lockName: string, fields: Partial<AcquireRequest> = {}): AcquireRequest {
  return {
    lockName,
    owner: randomOwner(),
    ttlMs: LONG_MS,
    timeoutMs: 10_000,
    lockDelayMs: 0,
    waits: false,
    // Another process each time, unless the test says that two requests are of one.
    waiter: randomOwner(),
    holder: { host: 'conformance', pid: process.pid },
    onLost: () => undefined,
    ...fields,
  }
}

export function granted(result: AcquireResult): Grant {
  if (result.kind === 'granted') return result.grant
  throw new Error(`expected a grant, got ${result.kind}`)
}

export async function acquired(
  backend: Backend,
  lockName: string,
  fields: Partial<AcquireRequest> = {},
): Promise<Grant> {
  return granted(await backend.tryAcquire(request(lockName, fields)))
}

/** Whether the name is held or rests, without disturbing it: a probe that is granted is undone. */
export async function isTaken(backend: Backend, lockName: string): Promise<boolean> {
  const probe = await backend.tryAcquire(request(lockName))
  if (probe.kind === 'granted') await backend.release(probe.grant, 0)
  return probe.kind === 'held'
}

/** Whether this very owner is refused: by an answer, or by an error that says so. */
export async function isRefused(backend: Backend, asked: AcquireRequest): Promise<boolean> {
  try {
    return (await backend.tryAcquire(asked)).kind === 'held'
  } catch (error) {
    if (error instanceof LockError) return true
    throw error
  }
}

/** Asks until granted: the entry that stands in the way has to end by itself. */
export async function untilGranted(
  store: Store,
  backend: Backend,
  lockName: string,
): Promise<Grant> {
  const untilMs = store.nowMs() + PATIENCE_MS
  while (store.nowMs() <= untilMs) {
    const result = await backend.tryAcquire(request(lockName))
    if (result.kind === 'granted') return result.grant
    await store.lapse(POLL_MS)
  }
  throw new Error(`"${lockName}" is still taken after ${PATIENCE_MS} ms`)
}

/** Past the end of a grant of `ttlMs`, with time for a store that ends entries in rounds. */
export async function lapsed(store: Store, { ttlMs }: Grant): Promise<void> {
  await store.lapse(Math.ceil(ttlMs * 1.25) + 50)
}
