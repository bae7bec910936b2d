/**
 * The claim: raise the fence to the presented token and draw `seq`, or say why not. The decision is
 * that of the statement in ../postgres/statements.ts, and the reasoning stands there.
 *
 * It is one synchronous step inside a transaction, and transactions run one after the other, so
 * nothing comes between the look at the row and its change.
 */
import { InvariantError } from '../../core/assert.ts'
import type { Call } from '../shared/call.ts'
import { type Claim, type Claimed, type FenceRow, repeatOrRefusal } from '../shared/record.ts'
import type { Transaction } from './store.ts'

type Presented = Pick<Call, 'claim' | 'fenced'>

/** @throws StaleTokenError, TokenConflictError, TokenSourceError: nothing was applied. */
export function claimOn(tx: Transaction, { claim, fenced }: Presented): Claimed {
  const { resource, source, owner, op } = claim
  const token = fenced.fencingToken
  const row = tx.fence(resource)
  const mayRaise =
    row === null ||
    (row.source === source &&
      (row.token < token || (row.token === token && row.owner === owner && row.op !== op)))
  if (mayRaise) {
    const seq = row?.token === token ? row.seq + 1n : 1n
    tx.setFence(resource, rowOf(claim, token, seq))
    return { seq, repeat: false }
  }
  const seq = repeatOrRefusal(row, claim, fenced)
  if (seq === null) throw new InvariantError(`a claim of "${resource}" met a row that it may raise`)
  return { seq, repeat: true }
}

/** An operator's decision: from here on, tokens of the lease's source count for its resource. */
export function adoptOn(tx: Transaction, presented: Presented): void {
  const { claim, fenced } = presented
  const row = tx.fence(claim.resource)
  if (row === null || row.source === claim.source) claimOn(tx, presented)
  else tx.setFence(claim.resource, rowOf(claim, fenced.fencingToken, 1n))
}

function rowOf({ owner, op, source }: Claim, token: bigint, seq: bigint): FenceRow {
  return { token, owner, seq, op, source }
}
