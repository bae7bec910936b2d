/**
 * COMMIT was sent, and its answer was lost: was it applied?
 *
 * A new connection looks at the fence's record, after the old transaction has ended. The claim drew
 * `seq` n under the row's lock, so:
 *
 * - op mine: committed.
 * - no row, a smaller token, or my token with seq < n: the record is what it was before the claim,
 *   so nothing was applied, and never will be.
 * - my token, another op, seq >= n: a later call of this lease ran; it could have run after mine was
 *   committed, or instead of it. Unknown: running the work again here applied it twice.
 * - a larger token: the next holder has claimed, and mine may have been committed before. Unknown.
 *
 * That the old transaction has ended is what the row's lock tells, but a row that it was about to
 * create cannot be locked, nor seen: a plain SELECT … FOR UPDATE finds nothing while a COMMIT that is
 * still on its way applies it. Hence the probe: an insertion of the same key waits for the other one,
 * and everything here is rolled back.
 */

import { type Claim, type FenceRow, readRow } from '../shared/record.ts'
import { type Parts, pause } from './call.ts'
import { borrow } from './session.ts'
import { beginText, limitsText } from './statements.ts'

export type Settled = 'committed' | 'not-committed' | 'unknown'

/** The server ends the old transaction at its time-outs; this is for its answer. */
const ALLOWANCE_MS = 2000
/** A caller must be told something; a server that restarts is back by then. */
const SETTLE_MS_MAX = 30_000
const RETRY_DELAY_MS = 50
const RETRY_DELAY_MS_MAX = 1000

/** @param limitMs The time-outs of the transaction in question. */
export async function settle<Tx>(
  parts: Parts<Tx>,
  claim: Claim,
  seq: bigint,
  limitMs: number,
): Promise<Settled> {
  const { seams } = parts
  const untilMs = seams.nowMs() + Math.min(limitMs + ALLOWANCE_MS, SETTLE_MS_MAX)
  for (let delayMs = RETRY_DELAY_MS; ; delayMs = Math.min(delayMs * 2, RETRY_DELAY_MS_MAX)) {
    const restMs = Math.floor(untilMs - seams.nowMs())
    if (restMs <= 0) return 'unknown'
    try {
      return await look(parts, claim, seq, restMs)
    } catch {
      // No connection, or the old transaction has not ended: looked at again until time is up.
      await pause(seams, delayMs)
    }
  }
}

async function look<Tx>(
  { driver, statements, deadlines }: Parts<Tx>,
  claim: Claim,
  seq: bigint,
  restMs: number,
): Promise<Settled> {
  const session = await borrow(driver, restMs, deadlines, beginText('read committed'))
  try {
    await session.send(limitsText(restMs), undefined, restMs)
    const probed = await session.send(statements.probe, [claim.resource], restMs)
    if (probed.rows.length > 0) return 'not-committed'
    const found = await session.send(statements.readLocked, [claim.resource], restMs)
    return verdict(readRow(found.rows[0]), claim, seq)
  } finally {
    await session.rollBack()
  }
}

function verdict(row: FenceRow | null, claim: Claim, seq: bigint): Settled {
  // Gone between two statements, or adopted by another source: nothing is left to compare with.
  if (row === null || row.source !== claim.source) return 'unknown'
  const token = BigInt(claim.token)
  if (row.token !== token) return row.token < token ? 'not-committed' : 'unknown'
  if (row.owner !== claim.owner) return 'unknown'
  if (row.op === claim.op) return 'committed'
  return row.seq < seq ? 'not-committed' : 'unknown'
}
