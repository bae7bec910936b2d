/** What everything that asks the nodes together has in common. */
import {
  BackendUnavailableError,
  type LockError,
  NotALockError,
  OutcomeUnknownError,
  type Vote,
} from '../../core/errors.ts'
import type { Seams } from '../../core/seams.ts'
import type { AdmissionPort } from './admission-port.ts'
import type { NodePort } from './node-port.ts'

const TIMEOUT_SHARE = 0.1
const TIMEOUT_MS_MIN = 50
const TIMEOUT_MS_MAX = 500

/** The cause of the vote of a node that is not known to fail: the others had decided. One for all, because stacks cost. */
export const UNHEARD: OutcomeUnknownError = new OutcomeUnknownError(
  'the others had decided before it answered',
)

export interface Voters {
  /** Sorted by name. */
  readonly ports: readonly NodePort[]
  readonly quorum: number
  readonly admission: AdmissionPort
  /** Null: a share of the TTL. */
  readonly nodeTimeoutMs: number | null
  seams(): Seams
  /** Why this node must not be asked for a vote; null: it may be. */
  refusalOf(node: number): LockError | null
}

/** How long a silent node is waited for where the others are not enough: min(ttl / 10, 500), 50 at least. */
export function timeoutOf({ nodeTimeoutMs }: Voters, ttlMs: number): number {
  if (nodeTimeoutMs !== null) return nodeTimeoutMs
  return Math.max(TIMEOUT_MS_MIN, Math.min(ttlMs * TIMEOUT_SHARE, TIMEOUT_MS_MAX))
}

/**
 * Why too few nodes answered, in one error: the reason that all of them share, or what admission knows,
 * or that there is no quorum. The votes have each node's own.
 *
 * @param mayBeApplied Whether a request may have been carried out somewhere.
 */
export function noQuorum(
  { ports, quorum, admission }: Voters,
  what: string,
  votes: readonly Vote[],
  mayBeApplied: boolean,
): LockError {
  const causes = votes.flatMap(({ cause }) =>
    cause === undefined || cause === UNHEARD ? [] : [cause],
  )
  const foreign = causes.find((cause) => cause instanceof NotALockError)
  if (foreign instanceof NotALockError) return foreign
  const known = admission.explain(votes)
  if (known !== null) return known
  const words = votes.flatMap(({ node, answer, cause }) =>
    answer === 'failed' ? [`"${node}" ${shortly(cause)}`] : [],
  )
  const message = `${what} needs ${quorum} of ${ports.length} nodes: ${words.join('; ')}`
  if (mayBeApplied) return new OutcomeUnknownError(message, { votes })
  return new BackendUnavailableError(commonReason(causes), message, { votes })
}

function shortly(cause: unknown): string {
  if (cause instanceof BackendUnavailableError) return `says ${cause.why}: ${cause.message}`
  if (cause === UNHEARD || !(cause instanceof OutcomeUnknownError)) return 'has not answered yet'
  return `is silent: ${cause.message}`
}

function commonReason(causes: readonly unknown[]): BackendUnavailableError['why'] {
  const reasons = new Set(
    causes.map((cause) => (cause instanceof BackendUnavailableError ? cause.why : 'no-quorum')),
  )
  const [reason = 'no-quorum'] = reasons
  return reasons.size === 1 ? reason : 'no-quorum'
}
