/**
 * Begin, claim and the first reads of `fn` in one flight: one round trip less.
 *
 * `fn` starts while its claim is on its way. What must hold all the same:
 *
 * - No answer of the store reaches `fn` before the claim is good, and nothing but reads is sent.
 * - A refused claim leaves a transaction that could be committed: it is rolled back before anything
 *   else, then the record says why. Asked inside, a read of `fn` that failed would hide the reason.
 * - The connection is given back only after `fn` has ended: whatever it sends late is refused, not
 *   sent by whoever has the connection then.
 * - The server runs one statement after the other, each with a snapshot of its own or the claim's, so
 *   that reads behind a claim see what the claim saw, or later.
 *
 * If BEGIN itself fails (a cancel in that very moment), a read that went ahead stands alone. It writes
 * nothing unless it calls a function that does; it is told as OutcomeUnknownError.
 */
import { isForgotten } from '../../clients/postgres.ts'
import type { Ahead } from '../../clients/postgres-wire.ts'
import { OutcomeUnknownError } from '../../core/errors.ts'
import { readRow, repeated, repeatOrRefusal } from '../shared/record.ts'
import { boundAndClaim, type Opening, openClaim } from './claiming.ts'
import { type Done, inOrder, MayBeginAgain, type Steps, workOf } from './steps.ts'

/** As `inOrder`, which it is on a connection that does not keep the claim prepared, or not yet. */
export function inOneFlight<Tx, T>(fn: (tx: Tx) => Promise<T>): Steps<Tx, T> {
  const ordinary = inOrder(boundAndClaim, workOf(fn))
  return async (opening, onClaimed) => {
    const { session, statements } = opening
    const ahead = session.ahead(statements.boundedClaim)
    if (ahead === null) return ordinary(opening, onClaimed)
    try {
      return await fly(opening, ahead, fn, onClaimed)
    } finally {
      ahead.close()
    }
  }
}

async function fly<Tx, T>(
  opening: Opening<Tx>,
  ahead: Ahead,
  fn: (tx: Tx) => Promise<T>,
  onClaimed: () => void,
): Promise<Done<T>> {
  // Written first, and looked at before anything that `fn` comes to.
  const opened = openClaim(opening)
  const running = Promise.allSettled([started(fn, opening.session.tx)])
  let seq: bigint
  try {
    seq =
      (await opened.catch((error) => failed(opening, ahead, error))) ??
      (await refused(opening, ahead))
  } catch (error) {
    ahead.refuse(error)
    await running
    throw error
  }
  onClaimed()
  ahead.letGo()
  const [result] = await running
  if (result.status === 'rejected') throw result.reason
  return { claimed: { seq, repeat: false }, value: result.value }
}

/** A function that throws at once is one that rejects. */
async function started<Tx, T>(fn: (tx: Tx) => Promise<T>, tx: Tx): Promise<T> {
  return fn(tx)
}

/** The claim's statement failed, and everything behind it with the transaction. */
async function failed(opening: Opening, ahead: Ahead, error: unknown): Promise<never> {
  ahead.stop()
  await opening.session.undo(opening.answerMs)
  if (ahead.hasCarriedOut) {
    throw new OutcomeUnknownError(
      'BEGIN failed, and what fn had sent behind it ran without a transaction',
      { cause: error },
    )
  }
  // The connection forgot the claim's text, and will get it written out.
  if (isForgotten(error)) throw new MayBeginAgain('the claim was not prepared', { cause: error })
  throw error
}

/** The claim met no row that it may raise. */
async function refused(opening: Opening, ahead: Ahead): Promise<never> {
  const { session, statements, claim, fenced, answerMs } = opening
  ahead.stop()
  await session.undo(answerMs)
  const { rows } = await session.send(statements.read, [claim.resource], answerMs)
  const row = readRow(rows[0])
  if (row !== null && repeatOrRefusal(row, claim, fenced) !== null) throw repeated()
  throw new MayBeginAgain('the record changed after the claim was refused')
}
