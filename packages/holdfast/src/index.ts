/// <reference lib="esnext.disposable" preserve="true" />
/** Holdfast: locks whose leases carry a fencing token. The surface of the package's main entry. */
export { memoryBackend } from './backends/memory/memory.ts'
export type {
  AcquireRequest,
  AcquireResult,
  Backend,
  Fenced,
  Grant,
  HandOverResult,
  HolderInfo,
  LockInfo,
  Options,
  RenewResult,
  RevokeOptions,
} from './core/backend.ts'
export type { Capabilities } from './core/capabilities.ts'
export type { LockErrorCode, LossReason, UnavailableReason, Vote } from './core/errors.ts'
export {
  BackendUnavailableError,
  ClosedError,
  GuardBusyError,
  InvalidArgumentError,
  LeaseLostError,
  LockError,
  LockHeldError,
  NotALockError,
  OutcomeUnknownError,
  ReentrantAcquireError,
  SeqConflictError,
  StaleTokenError,
  TokenConflictError,
  TokenSourceError,
} from './core/errors.ts'
export type { LockEvents, Warning } from './core/events.ts'
export type { Guard, TransactionalGuard } from './core/guard.ts'
export { fencedFromEnv } from './core/guard.ts'
export type { AcquireOptions, Lease, LeaseOptions, Locks, LocksOptions } from './core/lease.ts'
export type { Clock } from './core/seams.ts'
export { type MemoryGuardOptions, memoryGuard } from './guards/memory/guard.ts'
export { type MemoryStore, type MemoryTransaction, memoryStore } from './guards/memory/store.ts'
export { createLocks } from './lock/lock.ts'
