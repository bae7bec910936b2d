/** The resource side: the check that refuses a superseded holder. Implemented in guards/. */
import type { Fenced } from './backend.ts'
import { InvalidArgumentError } from './errors.ts'
import { OWNER_LENGTH } from './owner.ts'
import { checkToken } from './token.ts'

/**
 * Keeps, for each resource, the largest fencing token that has claimed it: the fence.
 *
 * Guarantees: after a claim with a token, nothing with a smaller token is applied there. Does not
 * guarantee anything about effects elsewhere, nor about what an older holder did before the claim.
 * `Tx` is the driver's own transaction type.
 */
export interface Guard<Tx> {
  /**
   * Raises the fence to the lease's token. Claim before the first read that the work depends on.
   *
   * @param tx Inside the caller's own transaction; otherwise in one of its own.
   * @returns `seq`: how many calls of this lease the guard has seen on this resource, this one
   *   included.
   * @throws StaleTokenError, TokenConflictError, TokenSourceError, GuardBusyError: nothing was
   *   applied.
   */
  claim(lease: Fenced, tx?: Tx): Promise<{ readonly seq: bigint }>
  /** Accepts tokens of another source from here on: an operator's decision. */
  adopt(lease: Fenced): Promise<void>
  /** What the fence records of a resource; null: nothing yet. */
  highest(resource: string): Promise<Omit<Fenced, 'lockName'> | null>
}

/** A guard whose records lie beside the data, so that claim and writes are one transaction. */
export interface TransactionalGuard<Tx> extends Guard<Tx> {
  /**
   * Begins, claims, calls `fn`, commits. `fn` may run several times: a serialization failure rolls
   * back and starts again, at most 5 times within the validity.
   *
   * @throws StaleTokenError, TokenConflictError, TokenSourceError, GuardBusyError, LeaseLostError:
   *   nothing was applied. OutcomeUnknownError: the answer to COMMIT was lost and could not be
   *   settled afterwards.
   */
  transaction<T>(lease: Fenced, fn: (tx: Tx) => Promise<T>): Promise<T>
}

/** A lease of the engine listens; a plain `Fenced` has nothing behind it that could. */
export interface StaleListener {
  onStaleRefusal(resource: string, highest: bigint): void
}

/**
 * A guard calls this before it throws StaleTokenError.
 *
 * A lease that the store still confirms although the guard has seen a larger token means that tokens
 * went back: the engine checks, and warns with code `token-regression`.
 */
export function reportStale(lease: Fenced, resource: string, highest: bigint): void {
  const listener = lease as Partial<StaleListener>
  listener.onStaleRefusal?.(resource, highest)
}

const BASE64URL = /^[A-Za-z0-9_-]+$/

/** Checks what a caller presents, before anything is sent. Accepts any object with the fields. */
export function checkFenced(fenced: Fenced): Fenced {
  if (typeof fenced !== 'object' || fenced === null) {
    throw new InvalidArgumentError('lease', fenced, 'a lease, or what fencedFromEnv() gives')
  }
  const { lockName, fencingToken, owner, source } = fenced
  if (typeof lockName !== 'string' || lockName === '') {
    throw new InvalidArgumentError('lockName', lockName, 'the name of the lock, a text')
  }
  checkToken(fencingToken)
  if (typeof owner !== 'string' || owner.length !== OWNER_LENGTH || !BASE64URL.test(owner)) {
    // The value is a secret, so the message does not repeat it.
    const told = typeof owner === 'string' ? `text of length ${owner.length}` : owner
    throw new InvalidArgumentError('owner', told, `${OWNER_LENGTH} characters, base64url`)
  }
  if (typeof source !== 'string' || source === '') {
    throw new InvalidArgumentError('source', source, 'the source of the token, a text')
  }
  return fenced
}

const ENV_NAME = 'HOLDFAST_LEASE'
const ENV_ALLOWED = 'JSON {"lockName", "fencingToken" in decimal digits, "owner", "source"}'

/**
 * The lease that `holdfast run` gave to this child process, from the variable HOLDFAST_LEASE.
 *
 * It says nothing of validity: the parent renews, and ends the child on loss.
 *
 * @throws InvalidArgumentError when the variable is missing or not of that shape.
 */
export function fencedFromEnv(
  env: Readonly<Record<string, string | undefined>> = process.env,
): Fenced {
  const text = env?.[ENV_NAME]
  let parsed: unknown
  try {
    parsed = JSON.parse(text ?? '')
  } catch {
    throw new InvalidArgumentError(ENV_NAME, text === undefined ? undefined : 'text', ENV_ALLOWED)
  }
  const { lockName, fencingToken, owner, source } = (parsed ?? {}) as Record<string, string>
  if (typeof fencingToken !== 'string' || !/^[0-9]{1,19}$/.test(fencingToken)) {
    throw new InvalidArgumentError(`${ENV_NAME}.fencingToken`, fencingToken, ENV_ALLOWED)
  }
  return checkFenced({
    lockName: lockName as string,
    fencingToken: BigInt(fencingToken),
    owner: owner as string,
    source: source as string,
  })
}
