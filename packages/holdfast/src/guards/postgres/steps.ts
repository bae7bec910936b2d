/** In which order a guarded transaction is begun and worked on. */
import { type Claimed, repeated } from '../shared/record.ts'
import type { Opening } from './claiming.ts'

/** May run several times; must not end the transaction, nor release the client. */
export type Work<Tx, T> = (tx: Tx, claimed: Claimed) => Promise<T>

/** The transaction's first statements, which write the fence's record: a claim, or an adoption. */
export type Begin = (opening: Opening) => Promise<Claimed>

/**
 * Everything of a transaction but its end.
 *
 * @param onClaimed Called once the claim is good: from then on errors are those of the work.
 */
export type Steps<Tx, T> = (opening: Opening<Tx>, onClaimed: () => void) => Promise<Done<T>>

export type Done<T> = Readonly<{ claimed: Claimed; value: T }>

/** Nothing was applied, for no reason of the user's: the transaction may begin again. */
export class MayBeginAgain extends Error {}

/** The work begins after the claim. */
export function inOrder<Tx, T>(begin: Begin, work: Work<Tx, T>): Steps<Tx, T> {
  return async (opening, onClaimed) => {
    const claimed = await begin(opening)
    onClaimed()
    return { claimed, value: await work(opening.session.tx, claimed) }
  }
}

/** The user's function as work: a call that was committed before is not run again. */
export function workOf<Tx, T>(fn: (tx: Tx) => Promise<T>): Work<Tx, T> {
  return (tx, { repeat }) => {
    if (repeat) throw repeated()
    return fn(tx)
  }
}
