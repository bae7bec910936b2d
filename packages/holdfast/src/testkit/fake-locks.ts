/** For tests of applications: the real engine without a server, and a loss at the push of a button. */
import { memoryBackendWith } from '../backends/memory/memory.ts'
import type { Capabilities } from '../core/capabilities.ts'
import { InvalidArgumentError, type LossReason } from '../core/errors.ts'
import type { Lease, Locks, LocksOptions } from '../core/lease.ts'
import { type Clock, type Seams, seamsWithClock, systemSeams } from '../core/seams.ts'
import { loseFromOutside } from '../lock/lease.ts'
import { createLocksWith } from '../lock/lock.ts'
import { HeldTerm } from '../recipes/election/term.ts'
import { findSeams } from './virtual-clock.ts'

/**
 * `Locks` for the tests of an application: the engine that runs in production, on a store in this
 * process's memory, so that code under test meets real waiting, renewal, loss and errors.
 *
 * Each call makes a store of its own: give one and the same object to all parts that are to exclude
 * each other. Nothing is shared with another process or a worker thread.
 *
 * @param options As for `createLocks`. With `clock: createVirtualClock()` time passes only when the
 *   test lets it, for leases and store alike.
 */
export function fakeLocks(
  options: LocksOptions = {},
): Locks<Capabilities & { readonly scope: 'process' }> {
  const seams = seamsFor(options?.clock)
  return createLocksWith(seams, memoryBackendWith(seams), options)
}

function seamsFor(clock: Clock | undefined): Seams {
  if (clock === undefined) return systemSeams
  return findSeams(clock) ?? seamsWithClock(clock)
}

const REASONS: readonly LossReason[] = [
  'expired',
  'superseded',
  'revoked',
  'session-ended',
  'max-hold',
]

/**
 * Loses a lease as if `reason` had happened: its signal aborts, `assertValid` throws, the event
 * `lost` is emitted, and `using` rejects with `LeaseLostError`. Works for every lease of this
 * package, and every term of an election, on any store, synchronously.
 *
 * As after a real loss, the store still names the old holder until it calls `release()` (a
 * leader: `resign()`) or its TTL
 * is over: to see a next holder at work, release the lease first.
 *
 * @returns false when the lease was released or lost before; then nothing changes.
 * @throws InvalidArgumentError for anything but a lease or term of this package, or for another reason.
 */
export function loseLease(lease: Omit<Lease, 'release'>, reason: LossReason): boolean {
  if (!REASONS.includes(reason)) {
    throw new InvalidArgumentError('reason', reason, `one of ${REASONS.join(', ')}`)
  }
  const term = typeof lease === 'object' && lease !== null ? HeldTerm.leaseOf(lease) : undefined
  const own = term ?? (lease as Lease)
  if (loseFromOutside(own, reason)) return true
  if (typeof own?.release !== 'function' || own.isHeld) {
    throw new InvalidArgumentError('lease', lease, 'a lease or a term of this package')
  }
  return false
}
