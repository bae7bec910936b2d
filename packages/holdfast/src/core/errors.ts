/**
 * One error class for each decision that a caller takes, with a stable `code`, fields to act on and
 * the cause. Branch on `code` or `instanceof`, never on `message`. Every code is explained in
 * docs/errors.md.
 */
import type { HolderInfo } from './backend.ts'
import { harmless, harmlessName, plain, shown } from './error-text.ts'

/** Stable; what each means, and whether something may have been applied, is in docs/errors.md. */
export type LockErrorCode =
  | 'LOCK_HELD'
  | 'LEASE_LOST'
  | 'STALE_TOKEN'
  | 'TOKEN_SOURCE'
  | 'BACKEND_UNAVAILABLE'
  | 'OUTCOME_UNKNOWN'
  | 'NOT_A_LOCK'
  | 'TOKEN_CONFLICT'
  | 'SEQ_CONFLICT'
  | 'GUARD_BUSY'
  | 'REENTRANT'
  | 'CLOSED'
  | 'INVALID_ARGUMENT'
  | 'KEY_IN_PROGRESS'
  | 'FINGERPRINT_MISMATCH'

/** How a lease ended other than by `release()`. Each is final: stop using the resource. */
export type LossReason =
  /** Validity ran out on the holder's own clock, or the store's entry was gone. */
  | 'expired'
  /** The store names another owner. */
  | 'superseded'
  /** An operator took the lock over; see `Locks.revoke`. */
  | 'revoked'
  /** The session that the lock was bound to is over, or `Locks.close()` ended the lease. */
  | 'session-ended'
  /** The lease reached its own `maxHoldMs`. */
  | 'max-hold'

/** One node's answer in a quorum of stores. */
export type Vote = Readonly<{
  node: string
  answer: 'granted' | 'held' | 'failed'
  /** Milliseconds from sending to the answer, on the asker's clock. */
  elapsedMs: number
  cause?: unknown
}>

/** Registered, so that two copies of the package in one process know each other's errors. */
const BRAND = Symbol.for('holdfast.error.code')

type Branded = { readonly [BRAND]?: unknown }

/**
 * Root of every error that this package gives to a caller; a bug of the package itself throws
 * `InvariantError`.
 */
export abstract class LockError<K extends LockErrorCode = LockErrorCode> extends Error {
  abstract readonly code: K
  /** Each node's answer, where the backend asks several; otherwise absent. */
  declare readonly votes?: readonly Vote[]

  constructor(message: string, options?: ErrorOptions & { votes?: readonly Vote[] | undefined }) {
    super(message, options)
    if (options?.votes) this.votes = options.votes
  }

  /**
   * Fields for a logger, which never make `JSON.stringify` throw. It refuses bigints, so tokens are
   * decimal strings; what a caller passed in or got back may be circular, or hold a password, so
   * objects are only named.
   */
  toJSON(): Record<string, unknown> {
    const fields = Object.entries(this).map(([name, value]) => [name, plain(name, value)])
    return { name: this.name, message: this.message, ...Object.fromEntries(fields) }
  }

  /** By brand for our own classes; by prototype for a class that a user derives from one. */
  static override [Symbol.hasInstance](value: unknown): boolean {
    const own = Object.hasOwn(this.prototype, BRAND)
    if (!own && this !== LockError) return Function.prototype[Symbol.hasInstance].call(this, value)
    if (typeof value !== 'object' || value === null) return false
    const code = (value as Branded)[BRAND]
    return this === LockError ? code !== undefined : code === (this.prototype as Branded)[BRAND]
  }
}

/** The class's name and code stand on its prototype, so that `stack` begins with the name. */
function brand(errorClass: { prototype: LockError }, name: string, code: LockErrorCode): void {
  Object.defineProperty(errorClass.prototype, 'name', { value: name, configurable: true })
  Object.defineProperty(errorClass.prototype, BRAND, { value: code })
}

/** Another owner holds the lock. Nothing of this attempt is left in the store. */
export class LockHeldError extends LockError<'LOCK_HELD'> {
  static {
    brand(LockHeldError, 'LockHeldError', 'LOCK_HELD')
  }

  readonly code = 'LOCK_HELD'
  readonly lockName: string
  /** How long this call waited, in milliseconds. */
  readonly waitedMs: number
  /** Who held it at the last refusal; null when the holder is a foreign program or unknown. */
  readonly holder: HolderInfo | null
  /**
   * How often the lock was seen to change hands during this wait, told by fencing tokens. At least:
   * grants between two looks at the store count as one. Null: the store told no token, or was asked
   * only once.
   */
  readonly handOvers: number | null
  /**
   * Milliseconds for which this process has seen the present holder, from the first look that found
   * it to the last: at least so long. Null as with `handOvers`.
   */
  readonly heldForMs: number | null

  constructor(
    lockName: string,
    waitedMs: number,
    holder: HolderInfo | null,
    options?: ErrorOptions & {
      votes?: readonly Vote[] | undefined
      handOvers?: number | null | undefined
      heldForMs?: number | null | undefined
    },
  ) {
    const { handOvers = null, heldForMs = null } = options ?? {}
    const by = holder ? `${holder.host}, process ${holder.pid}` : 'another owner'
    const waited = `waited ${Math.round(waitedMs)} ms`
    super(`lock "${lockName}" is held by ${by}; ${waited}${pace(handOvers, heldForMs)}`, options)
    this.lockName = lockName
    this.waitedMs = waitedMs
    this.holder = holder
    this.handOvers = handOvers
    this.heldForMs = heldForMs
  }
}

/** Two situations that call for opposite remedies: more patience, or a look at the holder. */
function pace(handOvers: number | null, heldForMs: number | null): string {
  if (handOvers === 1) return ': busy but progressing, 1 hand-over seen'
  if (handOvers) return `: busy but progressing, ${handOvers} hand-overs seen`
  return heldForMs ? `: stuck on this holder for at least ${Math.round(heldForMs)} ms` : ''
}

/**
 * A lease ended while its holder still meant to hold it. Thrown by `assertValid`, the reason of
 * `lease.signal`, and what `using` rejects with.
 *
 * Writes that were already sent may still be applied: only a guard at the resource refuses them.
 */
export class LeaseLostError extends LockError<'LEASE_LOST'> {
  static {
    brand(LeaseLostError, 'LeaseLostError', 'LEASE_LOST')
  }

  readonly code = 'LEASE_LOST'
  readonly lockName: string
  readonly fencingToken: bigint
  /**
   * From the grant to the moment the loss was known, on the holder's clock, in milliseconds. Null: whoever
   * found the loss does not know when the grant was.
   */
  readonly heldMs: number | null
  readonly reason: LossReason
  /** Given by `using` only: what its function did all the same. */
  declare readonly settled?: PromiseSettledResult<unknown>

  constructor(
    fields: {
      lockName: string
      fencingToken: bigint
      heldMs: number | null
      reason: LossReason
      settled?: PromiseSettledResult<unknown> | undefined
      /** Says more than `reason` in the message. */
      detail?: string | undefined
    },
    options?: ErrorOptions,
  ) {
    const after = fields.heldMs === null ? '' : ` after ${Math.round(fields.heldMs)} ms`
    const what = fields.detail ?? fields.reason
    super(`lease on "${fields.lockName}" lost${after}: ${what}`, options)
    this.lockName = fields.lockName
    this.fencingToken = fields.fencingToken
    this.heldMs = fields.heldMs
    this.reason = fields.reason
    if (fields.settled) this.settled = fields.settled
  }
}

/** A guard has seen a newer holder: nothing was applied, and never will be with this token. */
export class StaleTokenError extends LockError<'STALE_TOKEN'> {
  static {
    brand(StaleTokenError, 'StaleTokenError', 'STALE_TOKEN')
  }

  readonly code = 'STALE_TOKEN'
  readonly resource: string
  readonly presented: bigint
  readonly highest: bigint

  constructor(resource: string, presented: bigint, highest: bigint) {
    super(`token ${presented} for "${resource}" is stale: the guard has seen ${highest}`)
    this.resource = resource
    this.presented = presented
    this.highest = highest
  }
}

/** The guard's record came from another store; their tokens do not compare. Nothing was applied. */
export class TokenSourceError extends LockError<'TOKEN_SOURCE'> {
  static {
    brand(TokenSourceError, 'TokenSourceError', 'TOKEN_SOURCE')
  }

  readonly code = 'TOKEN_SOURCE'
  readonly resource: string
  readonly presented: string
  readonly recorded: string

  /** @param repair What accepts the new store, where it is not `adopt`. */
  constructor(
    resource: string,
    presented: string,
    recorded: string,
    repair = 'accept it with guard.adopt(lease)',
  ) {
    super(
      `the guard of "${resource}" records tokens of "${recorded}", this one is of "${presented}"; ` +
        `after a deliberate move of the locks to another store, ${repair}`,
    )
    this.resource = resource
    this.presented = presented
    this.recorded = recorded
  }
}

/** Why a store could not do what was asked. In every case nothing was applied. */
export type UnavailableReason =
  | 'down'
  | 'loading'
  | 'read-only'
  | 'out-of-memory'
  | 'no-permission'
  | 'no-quorum'
  | 'backlog'

/** The store could not do it, and nothing was applied. */
export class BackendUnavailableError extends LockError<'BACKEND_UNAVAILABLE'> {
  static {
    brand(BackendUnavailableError, 'BackendUnavailableError', 'BACKEND_UNAVAILABLE')
  }

  readonly code = 'BACKEND_UNAVAILABLE'
  readonly why: UnavailableReason

  constructor(
    why: UnavailableReason,
    message: string,
    options?: ErrorOptions & { votes?: readonly Vote[] | undefined },
  ) {
    super(`${message} (${why})`, options)
    this.why = why
  }
}

/** No answer: it may have been applied, or may still be. An acquire is undone by a cancel. */
export class OutcomeUnknownError extends LockError<'OUTCOME_UNKNOWN'> {
  static {
    brand(OutcomeUnknownError, 'OutcomeUnknownError', 'OUTCOME_UNKNOWN')
  }

  readonly code = 'OUTCOME_UNKNOWN'
}

/** What stands at the lock's key is no lock: it never expires, or is of another type. */
export class NotALockError extends LockError<'NOT_A_LOCK'> {
  static {
    brand(NotALockError, 'NotALockError', 'NOT_A_LOCK')
  }

  readonly code = 'NOT_A_LOCK'
  readonly key: string

  constructor(key: string, found: string) {
    super(`the key "${key}" is not a lock: ${found}; it was left untouched`)
    this.key = key
  }
}

/** One token, two owners: a store repeated a token. Nothing was applied. */
export class TokenConflictError extends LockError<'TOKEN_CONFLICT'> {
  static {
    brand(TokenConflictError, 'TokenConflictError', 'TOKEN_CONFLICT')
  }

  readonly code = 'TOKEN_CONFLICT'
  readonly resource: string

  constructor(resource: string, token: bigint) {
    super(`token ${token} for "${resource}" was claimed by another owner: the store repeated it`)
    this.resource = resource
  }
}

/** Two guarded calls of one lease at once, where the store cannot order them itself. */
export class SeqConflictError extends LockError<'SEQ_CONFLICT'> {
  static {
    brand(SeqConflictError, 'SeqConflictError', 'SEQ_CONFLICT')
  }

  readonly code = 'SEQ_CONFLICT'
  readonly resource: string

  constructor(resource: string) {
    super(`two guarded calls for "${resource}" ran at once under one lease`)
    this.resource = resource
  }
}

/** Another transaction keeps the guard's row. Nothing was applied; try again. */
export class GuardBusyError extends LockError<'GUARD_BUSY'> {
  static {
    brand(GuardBusyError, 'GuardBusyError', 'GUARD_BUSY')
  }

  readonly code = 'GUARD_BUSY'
  readonly resource: string

  constructor(resource: string, message: string, options?: ErrorOptions) {
    super(`the guard of "${resource}" is busy: ${message}`, options)
    this.resource = resource
  }
}

/** `using` inside `using`, or a guarded call inside another: it would wait for itself. */
export class ReentrantAcquireError extends LockError<'REENTRANT'> {
  static {
    brand(ReentrantAcquireError, 'ReentrantAcquireError', 'REENTRANT')
  }

  readonly code = 'REENTRANT'
  readonly lockName: string

  constructor(
    lockName: string,
    message = `lock "${lockName}" is already held by the enclosing using() of this very call chain`,
  ) {
    super(message)
    this.lockName = lockName
  }
}

/** `Locks.close()` was called. */
export class ClosedError extends LockError<'CLOSED'> {
  static {
    brand(ClosedError, 'ClosedError', 'CLOSED')
  }

  readonly code = 'CLOSED'

  constructor() {
    super('these locks are closed')
  }
}

/**
 * A caller's mistake, found before anything was sent. Never retried.
 *
 * No password is in it: `value` and `option` are `(withheld)` where a text may be a URL with one, or
 * where the option is not known, and of an object `value` has the class alone.
 */
export class InvalidArgumentError extends LockError<'INVALID_ARGUMENT'> {
  static {
    brand(InvalidArgumentError, 'InvalidArgumentError', 'INVALID_ARGUMENT')
  }

  readonly code = 'INVALID_ARGUMENT'
  readonly option: string
  readonly value: unknown
  readonly allowed: string

  /** @param message In place of the one that option, value and allowed make. */
  constructor(option: string, value: unknown, allowed: string, message?: string) {
    const name = harmlessName(option)
    super(message ?? `${name} is ${shown(value)}, allowed: ${allowed}`)
    this.option = name
    this.value = harmless(value)
    this.allowed = allowed
  }
}
