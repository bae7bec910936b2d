/** The fence's record of one resource, and what a claim that may not raise it is told. */
import type { Fenced } from '../../core/backend.ts'
import {
  OutcomeUnknownError,
  StaleTokenError,
  TokenConflictError,
  TokenSourceError,
} from '../../core/errors.ts'
import { reportStale } from '../../core/guard.ts'

/** What a claim presents, all as text. */
export interface Claim {
  readonly resource: string
  readonly token: string
  readonly owner: string
  readonly op: string
  readonly source: string
}

export function claimValues(claim: Claim): string[] {
  return [claim.resource, claim.token, claim.owner, claim.op, claim.source]
}

/** The fence's record of one resource. */
export type FenceRow = Readonly<{
  token: bigint
  owner: string
  seq: bigint
  op: string
  source: string
}>

/** `repeat`: this very call was applied before, and `seq` is what it drew then. */
export type Claimed = Readonly<{ seq: bigint; repeat: boolean }>

/** As a driver gives it. */
type Row = Readonly<Record<string, unknown>>

export function readRow(row: Row | undefined): FenceRow | null {
  if (row === undefined) return null
  const { token, owner, seq, op, source } = row
  return {
    token: BigInt(String(token)),
    owner: String(owner),
    seq: BigInt(String(seq)),
    op: String(op),
    source: String(source),
  }
}

/**
 * Why a claim met no row that it may raise, in this order. Null: it may now.
 *
 * @param repair What accepts another source, where it is not `adopt`.
 * @returns The `seq` that this call drew when it was applied before.
 */
export function repeatOrRefusal(
  row: FenceRow,
  claim: Claim,
  fenced: Fenced,
  repair?: string,
): bigint | null {
  const { resource } = claim
  const { fencingToken } = fenced
  if (row.source !== claim.source) {
    throw new TokenSourceError(resource, claim.source, row.source, repair)
  }
  if (row.token > fencingToken) {
    reportStale(fenced, resource, row.token)
    throw new StaleTokenError(resource, fencingToken, row.token)
  }
  if (row.token < fencingToken) return null
  if (row.owner !== claim.owner) throw new TokenConflictError(resource, fencingToken)
  return row.op === claim.op ? row.seq : null
}

/** A resend of a call whose result is not known any more. */
export function repeated(): OutcomeUnknownError {
  return new OutcomeUnknownError('this very call was committed before')
}
