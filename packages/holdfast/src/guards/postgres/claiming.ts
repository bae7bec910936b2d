/**
 * The claim itself: raise the fence to the presented token and draw `seq`, in one statement under
 * the row's lock, or say why not.
 *
 * In a transaction of the guard's own it travels together with BEGIN, in one round trip; how, is the
 * driver's affair (`Wire.open`). The time-outs are set inside the claim: it stays the first statement,
 * so that no snapshot is older than it, and a claim that is refused, which leaves the row locked, is
 * bounded too.
 *
 * Rejected: SELECT, then UPDATE: the fence went back from 6 to 5, because both transactions read
 * before either wrote. Counting `seq` in the process: see statements.ts. SET LOCAL with the number in
 * its text: before PostgreSQL 17 every number is a statement of its own to pg_stat_statements, and
 * pushes the user's statements out of it; inside the claim the time-outs also cost less.
 */
import type { Ask } from '../../clients/postgres-wire.ts'
import type { Fenced } from '../../core/backend.ts'
import { GuardBusyError } from '../../core/errors.ts'
import {
  type Claim,
  type Claimed,
  claimValues,
  readRow,
  repeatOrRefusal,
} from '../shared/record.ts'
import type { Session } from './session.ts'
import type { Statements } from './statements.ts'

/** As a driver gives it. */
type Row = Readonly<Record<string, unknown>>

/** What a claim's statement answered; null: no row, so nothing was applied. */
function drawnSeq(row: Row | undefined): bigint | null {
  return row === undefined ? null : BigInt(String(row['seq']))
}

/**
 * Claims by statements of their own.
 *
 * @param isRefused The claim was made a moment ago and met no row that it may raise.
 * @throws StaleTokenError, TokenConflictError, TokenSourceError, GuardBusyError: nothing was applied.
 */
export async function claimByParts(
  ask: Ask,
  statements: Statements,
  claim: Claim,
  fenced: Fenced,
  isRefused = false,
): Promise<Claimed> {
  // No row, or one that changed after the refusal: asked once more.
  for (let tries = 0; tries < 2; tries++) {
    if (!isRefused || tries > 0) {
      const seq = drawnSeq((await ask(statements.claim, claimValues(claim))).rows[0])
      if (seq !== null) return { seq, repeat: false }
    }
    const row = readRow((await ask(statements.read, [claim.resource])).rows[0])
    const seq = row && repeatOrRefusal(row, claim, fenced)
    if (seq !== null) return { seq, repeat: true }
  }
  throw new GuardBusyError(claim.resource, 'its record changed each time it was read')
}

export interface Opening<Tx = unknown> {
  readonly session: Session<Tx>
  readonly statements: Statements
  readonly claim: Claim
  readonly fenced: Fenced
  readonly limitMs: number
  /** A bound for each answer: the server's own time-outs come before it. */
  readonly answerMs: number
}

/** The first statement of a transaction: bounds it and claims. Null: it is refused. */
export function openClaim(opening: Opening): Promise<bigint | null> {
  const { session, statements, claim, limitMs, answerMs } = opening
  const values = [...claimValues(claim), String(limitMs)]
  return session
    .open(statements.boundedClaim, values, answerMs)
    .then(({ rows }) => drawnSeq(rows[0]))
}

/** The same, and says why. */
export async function boundAndClaim(opening: Opening): Promise<Claimed> {
  const { session, statements, claim, fenced, answerMs } = opening
  const seq = await openClaim(opening)
  if (seq !== null) return { seq, repeat: false }
  const ask: Ask = (text, values) => session.send(text, values, answerMs)
  return claimByParts(ask, statements, claim, fenced, true)
}
