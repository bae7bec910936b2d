/**
 * An operator's decision: from here on, tokens of the lease's source count for its resource.
 *
 * Writers of the old source then fail by their source, however large their tokens are.
 */
import type { Ask } from '../../clients/postgres-wire.ts'
import { TokenSourceError } from '../../core/errors.ts'
import { type Claimed, claimValues, readRow } from '../shared/record.ts'
import { claimByParts, type Opening } from './claiming.ts'
import { limitsText } from './statements.ts'

export async function boundAndAdopt(opening: Opening): Promise<Claimed> {
  const { session, statements, claim, fenced, limitMs, answerMs } = opening
  await session.send(limitsText(limitMs), undefined, answerMs)
  const ask: Ask = (text, values) => session.send(text, values, answerMs)
  for (let tries = 1; ; tries++) {
    const row = readRow((await ask(statements.readLocked, [claim.resource])).rows[0])
    if (row !== null && row.source !== claim.source) {
      await ask(statements.replace, claimValues(claim))
      return { seq: 1n, repeat: false }
    }
    try {
      return await claimByParts(ask, statements, claim, fenced)
    } catch (error) {
      // There was no row to lock, and another source has made one since: now there is.
      if (!(error instanceof TokenSourceError) || tries === 2) throw error
    }
  }
}
