/**
 * What an error of etcd, or of gRPC on the way to it, means for a request: applied, not applied, or
 * nobody knows.
 *
 * "Not applied" is claimed only where etcd's own words say that it refused before it proposed the
 * request to its members, or gRPC's that it had no connection to send it by. All else is unknown: a
 * member that is slow, or has lost its leader, may have passed the request on.
 *
 * The texts are those of etcd 3.4 (etcdserver/api/v3rpc/rpctypes/error.go) and of grpc-js 1.14. No
 * message of ours repeats one: they may contain keys, and an owner is a secret. The original is the
 * `cause`.
 */
import {
  BackendUnavailableError,
  LockError,
  OutcomeUnknownError,
  type UnavailableReason,
} from '../../core/errors.ts'

/** The parts of grpc-js' `ServiceError` that are looked at. */
interface CallError {
  readonly code: number
  readonly details: string
}

/** The codes of gRPC that matter here. */
const INVALID_ARGUMENT = 3
const NOT_FOUND = 5
const PERMISSION_DENIED = 7
const FAILED_PRECONDITION = 9
const OUT_OF_RANGE = 11
const UNAVAILABLE = 14
const UNAUTHENTICATED = 16

type Meaning = readonly [text: RegExp, why: UnavailableReason, words: string]

const REFUSALS: readonly Meaning[] = [
  [/permission denied/, 'no-permission', 'the user may not touch these keys'],
  [/user name is empty/, 'no-permission', 'it wants a user name and a password'],
  [/authentication failed/, 'no-permission', 'it does not accept this user name and password'],
  [/authentication is not enabled/, 'no-permission', 'it has no users, and was given a user name'],
  [/database space exceeded/, 'out-of-memory', 'its database has reached its quota'],
  [/too many requests/, 'backlog', 'it has more requests than it can take'],
  [/etcdserver: no leader/, 'no-quorum', 'its members have no leader at present'],
  [/not capable/, 'down', 'the member is not ready yet'],
  [/^No connection established/, 'down', 'there is no connection to it'],
  [/^Name resolution failed/, 'down', 'the name of its host cannot be resolved'],
  [/^The channel has been closed/, 'down', 'the connection was closed'],
]

function callErrorOf(error: unknown): CallError | null {
  const own = error instanceof LockError ? error.cause : error
  const { code, details } = (own ?? {}) as Partial<CallError>
  return typeof code === 'number' ? { code, details: String(details ?? '') } : null
}

/** Makes what is thrown of what gRPC rejects with. A bug is thrown as it is. */
export function asEtcdError(error: unknown, what: string): unknown {
  if (error instanceof LockError) return error
  const call = callErrorOf(error)
  if (call === null) return error
  for (const [text, why, words] of REFUSALS) {
    if (text.test(call.details)) {
      return new BackendUnavailableError(why, `etcd did not do ${what}: ${words}`, { cause: error })
    }
  }
  if (call.code === PERMISSION_DENIED || call.code === UNAUTHENTICATED) {
    const words = `etcd did not do ${what}: the user may not do it`
    return new BackendUnavailableError('no-permission', words, { cause: error })
  }
  const words = `etcd gave no answer to ${what}; it may have been done`
  return new OutcomeUnknownError(words, { cause: error })
}

/** For questions: nothing can have been applied. */
export function asUnanswered(error: unknown, what: string): unknown {
  const known = asEtcdError(error, what)
  if (!(known instanceof OutcomeUnknownError)) return known
  const words = `etcd gave no answer to ${what}`
  return new BackendUnavailableError('down', words, { cause: known.cause })
}

/** Whether another member may do better: the member, or the way to it, failed. */
export function isMembersFault(error: unknown): boolean {
  const call = callErrorOf(error)
  if (call === null) return false
  const isRefusal = call.code === PERMISSION_DENIED || call.code === NOT_FOUND
  return !isRefusal && call.code !== FAILED_PRECONDITION && call.code !== INVALID_ARGUMENT
}

/** Whether the login is over: the request was refused before anything else was looked at. */
export function isLoggedOut(error: unknown): boolean {
  const call = callErrorOf(error)
  if (call === null) return false
  return call.code === UNAUTHENTICATED || /revision of auth store is old/.test(call.details)
}

/** The lease has ended, or never was: a put on it was not applied. */
export function isLeaseGone(error: unknown): boolean {
  const call = callErrorOf(error)
  return call?.code === NOT_FOUND && /lease not found/.test(call.details)
}

export function isLeaseTaken(error: unknown): boolean {
  const call = callErrorOf(error)
  return call?.code === FAILED_PRECONDITION && /lease already exists/.test(call.details)
}

/** The revision that was asked for is not kept any more. */
export function isCompacted(error: unknown): boolean {
  return callErrorOf(error)?.code === OUT_OF_RANGE
}

/** Nothing was there to send it by. */
export function isUnreachable(error: unknown): boolean {
  const call = callErrorOf(error)
  return call?.code === UNAVAILABLE && /^No connection established/.test(call.details)
}
