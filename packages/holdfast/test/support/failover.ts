/** What a program sees of a failover: whether its calls are bounded, and whether it is told in time. */
import { setTimeout as sleep } from 'node:timers/promises'
import { expect } from 'vitest'
import type { Lease, Locks } from '../../src/core/lease.ts'
import type { ClientName } from './redis.ts'

export const LONG_MS = 120_000
export const FAILOVER_MS_MAX = 60_000
/** A request is given up after 2 s; the rest is for a machine with every core taken. */
const CALL_MS_MAX = 10_000
/** Less than any failover takes: Sentinels wait a second, and the nodes of a cluster two. */
const SHORT_MS = 800

export interface Call {
  readonly code: string
  readonly tookMs: number
}

/**
 * Asks for names that begin with `start`, each its own, so that what was given up does not stand in
 * the way; again and again, until one is granted or the time is over.
 */
export async function askUntilGranted(
  locks: Locks,
  start: string,
  withinMs: number = FAILOVER_MS_MAX,
): Promise<Call[]> {
  const calls: Call[] = []
  const untilMs = performance.now() + withinMs
  while (calls.at(-1)?.code !== 'GRANTED' && performance.now() < untilMs) {
    const startedAtMs = performance.now()
    const code = await locks
      .acquire(`${start}:${calls.length}`, { waitMs: 0, ttlMs: LONG_MS })
      .then(
        (lease) => lease.release().then(() => 'GRANTED'),
        (error) => String(error.code),
      )
    calls.push({ code, tookMs: performance.now() - startedAtMs })
    await sleep(50)
  }
  return calls
}

export function expectBounded(calls: readonly Call[]): void {
  const codes = new Set(calls.map(({ code }) => code))
  for (const expected of ['GRANTED', 'BACKEND_UNAVAILABLE', 'OUTCOME_UNKNOWN']) {
    codes.delete(expected)
  }
  expect([...codes]).toEqual([])
  expect(Math.max(...calls.map(({ tookMs }) => tookMs))).toBeLessThan(CALL_MS_MAX)
}

/** Holders of short leases, one for each client, at a primary that is about to die. */
export class ShortLeases {
  readonly #leases = new Map<ClientName, { lease: Lease; inTime: Promise<boolean> }>()

  async take(name: ClientName, locks: Locks, lockName: string): Promise<void> {
    const lease = await locks.acquire(lockName, { waitMs: 0, ttlMs: SHORT_MS })
    // By the order of two timers, so that a blocked loop is late for both. Anew after each renewal:
    // a machine that is slow to end the primary lets some come before it.
    const watch = (): void => {
      const inTime = sleep(0.95 * SHORT_MS)
        .then(() => sleep(20))
        .then(() => lease.signal.aborted)
      this.#leases.set(name, { lease, inTime })
    }
    locks.on('renewed', (event) => {
      if (event.lockName === lockName) watch()
    })
    watch()
  }

  /** That the holder was told when nearly all of its TTL was over, since its last renewal. */
  async expectTold(name: ClientName): Promise<void> {
    const { lease, inTime } = this.#leases.get(name) ?? {}
    expect(await inTime).toBe(true)
    expect(lease?.signal.reason).toMatchObject({ code: 'LEASE_LOST', reason: 'expired' })
  }
}
