/**
 * "Read the balance, think, write the new balance" in several ways, which are the arms of the
 * scenarios with wallets.
 *
 * Each one calls `think` between its read and its write; that is where A is paused. In the arms in
 * which only the store shall be able to refuse, the writer stands for one that looked at its lease
 * before the pause: it does not look at its signal and presents the bare token.
 */
import { type Fenced, GuardBusyError, type Lease, LeaseLostError, StaleTokenError } from 'holdfast'
import type { Round } from '../../scenario.ts'
import { monotonicUs } from '../../time.ts'
import type { Queryable } from '../ground/database.ts'
import type { WalletStores } from '../ground/ground.ts'

/**
 * `refused`: by the store. `lost`: the holder stopped itself. `busy`: the guard's row was taken.
 * `unanswered`: there was no lock to begin with.
 */
export type UpdateAnswer = 'applied' | 'refused' | 'lost' | 'busy' | 'unanswered'

/** Whoever writes down what is done: a round, or one of the rounds of a job. */
export type Scribe = Pick<Round, 'role' | 'call' | 'note'>

export interface Work<R extends Scribe = Round> {
  readonly round: R
  readonly stores: WalletStores
  readonly wallet: string
  /** What the balance is to rise by; less than nothing is a withdrawal. */
  readonly change: number
  readonly tryNumber: number
  think(): Promise<void>
}

export type LockedWork<R extends Scribe = Round> = Work<R> & { readonly lease: Lease }

/** No protection at the data: whoever writes last wins. */
export async function plainUpdate(work: Work<Scribe>): Promise<UpdateAnswer> {
  const { round, tryNumber, stores, wallet, change } = work
  const basis = await read(work, stores.db, 'failed')
  await work.think()
  await round.call('write', async () => {
    await write(stores.db, wallet, basis + change)
    return { answer: 'applied', basis, value: basis + change, tryNumber }
  })
  return 'applied'
}

/** The fence column of the source: compared and raised in the statement that writes. */
export async function columnUpdate(work: LockedWork): Promise<UpdateAnswer> {
  const { round, lease, stores, tryNumber, wallet, change } = work
  const token = `${lease.fencingToken}`
  const basis = await read(work, stores.db, 'failed')
  await work.think()
  const { answer } = await round.call('write', async () => {
    const { rowCount } = await stores.db.query(
      'UPDATE wallets SET balance = $2, last_token = $3 WHERE id = $1 AND last_token < $3',
      [wallet, basis + change, token],
    )
    const answer: UpdateAnswer = rowCount === 1 ? 'applied' : 'refused'
    return { answer, basis, value: basis + change, token, tryNumber }
  })
  return answer
}

/** Claim and read in one short transaction, write in another, with nothing but the bare token. */
export function tokenUpdate(work: LockedWork<Scribe>): Promise<UpdateAnswer> {
  return guardedUpdate(work, bareOf(work.lease))
}

/** What stays of a lease where only the store shall be able to refuse: no deadline, no signal. */
function bareOf({ lockName, fencingToken, owner, source }: Lease): Fenced {
  return { lockName, fencingToken, owner, source }
}

/** A claim of its own, then a read outside of any transaction, then the guarded write. */
export async function claimThenReadUpdate(work: LockedWork): Promise<UpdateAnswer> {
  const { stores } = work
  const fenced = bareOf(work.lease)
  const claimed = await claimBy(work, fenced, async () => void (await stores.guard.claim(fenced)))
  if (claimed !== 'applied') return claimed
  const basis = await read(work, stores.db, 'failed')
  await work.think()
  return guardedWrite(work, fenced, basis)
}

/** The column form of the guard, which compares and raises in the statement that writes. */
export async function guardUpdate(work: LockedWork): Promise<UpdateAnswer> {
  const { round, stores, change, tryNumber } = work
  const fenced = bareOf(work.lease)
  const token = `${fenced.fencingToken}`
  const basis = await read(work, stores.db, 'failed')
  await work.think()
  const { answer } = await round.call('write', async () => {
    const answer = await answerOf(() => updateRow(work, fenced, { balance: basis + change }))
    return { answer, basis, value: basis + change, token, tryNumber }
  })
  return answer
}

/** The same, with an update before the read, which brings the token to the row. */
export async function guardUpdateTwice(work: LockedWork): Promise<UpdateAnswer> {
  const { round } = work
  const fenced = bareOf(work.lease)
  const claimed = await claimBy(work, fenced, () =>
    updateRow(work, fenced, { claimed_by: round.role }),
  )
  return claimed === 'applied' ? guardUpdate(work) : claimed
}

async function updateRow(
  { stores, wallet }: Work,
  fenced: Fenced,
  set: Readonly<Record<string, unknown>>,
): Promise<void> {
  const where = { id: wallet }
  const answer = await stores.guard.update(fenced, { table: 'wallets', where, set })
  if (answer !== 'applied') throw new Error(`${wallet}: the update was answered "${answer}"`)
}

/** A step of its own that brings the token to the row, before the read. */
async function claimBy(
  { round, tryNumber }: Work,
  fenced: Fenced,
  act: () => Promise<void>,
): Promise<UpdateAnswer> {
  const token = `${fenced.fencingToken}`
  const { claimed } = await round.call('claim', async () => {
    const claimed = await answerOf(act)
    return { answer: claimed === 'applied' ? 'granted' : claimed, token, tryNumber, claimed }
  })
  return claimed
}

/** The store computes the new balance itself, and only if there is enough: nothing to overwrite. */
export async function oneStatement(work: Work): Promise<UpdateAnswer> {
  const { round, stores, wallet, change, tryNumber } = work
  await work.think()
  await round.call('write', async () => {
    const { rows } = await stores.db.query<{ balance: number }>(
      'UPDATE wallets SET balance = balance + $2 WHERE id = $1 AND balance + $2 >= 0 RETURNING balance',
      [wallet, change],
    )
    const [row] = rows
    if (row === undefined) throw new Error(`${wallet} has no ${-change} left`)
    const { balance } = row
    return { answer: 'applied', basis: balance - change, value: balance, tryNumber }
  })
  return 'applied'
}

/** The same with the lease itself, so that the engine stops a holder that is past its deadline. */
export function leaseUpdate(work: LockedWork): Promise<UpdateAnswer> {
  return guardedUpdate(work, work.lease)
}

async function guardedUpdate(work: LockedWork<Scribe>, fenced: Fenced): Promise<UpdateAnswer> {
  let basis = 0
  const claimed = await claim(work, fenced, async (tx) => {
    basis = await read(work, tx, 'cut')
  })
  if (claimed !== 'applied') return claimed
  await work.think()
  return guardedWrite(work, fenced, basis)
}

async function guardedWrite(
  work: Work<Scribe>,
  fenced: Fenced,
  basis: number,
): Promise<UpdateAnswer> {
  const { round, stores, tryNumber, wallet, change } = work
  const token = `${fenced.fencingToken}`
  const { answer } = await round.call('write', async () => {
    const answer = await answerOf(() =>
      stores.guard.transaction(fenced, (tx) => write(tx, wallet, basis + change)),
    )
    return { answer, basis, value: basis + change, token, tryNumber }
  })
  return answer
}

/** Claim, read, think and write inside ONE transaction: the fence's row is locked meanwhile. */
export async function insideUpdate(work: LockedWork): Promise<UpdateAnswer> {
  const { round, lease, tryNumber, wallet, change } = work
  const token = `${lease.fencingToken}`
  const seen: { basis?: number; thinking?: Promise<void>; writeCalledAtUs?: number } = {}
  const answer = await claim(work, lease, async (tx) => {
    seen.basis = await read(work, tx, 'cut')
    seen.thinking = work.think()
    await seen.thinking
    seen.writeCalledAtUs = monotonicUs()
    await write(tx, wallet, seen.basis + change)
  })
  const { basis, thinking, writeCalledAtUs } = seen
  // A guard that gives up at the deadline does not end the pause: A goes on when it is over.
  await thinking
  if (basis === undefined) return answer
  // Noted when the transaction is over: before its COMMIT the write has not happened.
  const outcome = { answer, basis, value: basis + change, token, tryNumber }
  round.note('write', writeCalledAtUs ?? monotonicUs(), outcome)
  return answer
}

/** A guarded transaction; the time until it lets `act` in is noted as the claim. */
async function claim(
  { round, stores, tryNumber }: LockedWork<Scribe>,
  fenced: Fenced,
  act: (tx: Queryable) => Promise<void>,
): Promise<UpdateAnswer> {
  const token = `${fenced.fencingToken}`
  const calledAtUs = monotonicUs()
  let isIn = false
  const answer = await answerOf(() =>
    stores.guard.transaction(fenced, (tx) => {
      // The guard may begin again after a serialization failure; the claim is noted once.
      if (!isIn) round.note('claim', calledAtUs, { answer: 'granted', token, tryNumber })
      isIn = true
      return act(tx)
    }),
  )
  if (!isIn) round.note('claim', calledAtUs, { answer, token, tryNumber })
  return answer
}

export async function answerOf(act: () => Promise<void>): Promise<UpdateAnswer> {
  try {
    await act()
    return 'applied'
  } catch (error) {
    if (error instanceof StaleTokenError) return 'refused'
    if (error instanceof LeaseLostError) return 'lost'
    if (error instanceof GuardBusyError) return 'busy'
    throw error
  }
}

/**
 * @param whenItFails `cut` in a guarded transaction, whose connection ends with the lease: the
 *   guard's own answer then tells what happened.
 */
async function read(
  { round, wallet, tryNumber }: Work<Scribe>,
  db: Queryable,
  whenItFails: 'failed' | 'cut',
): Promise<number> {
  const calledAtUs = monotonicUs()
  try {
    const { rows } = await db.query<{ balance: number }>(
      'SELECT balance FROM wallets WHERE id = $1',
      [wallet],
    )
    const [row] = rows
    if (row === undefined) throw new Error(`there is no wallet ${wallet}`)
    round.note('read', calledAtUs, { answer: 'read', value: row.balance, tryNumber })
    return row.balance
  } catch (error) {
    round.note('read', calledAtUs, { answer: whenItFails, detail: String(error), tryNumber })
    throw error
  }
}

async function write(db: Queryable, wallet: string, balance: number): Promise<void> {
  await db.query('UPDATE wallets SET balance = $2 WHERE id = $1', [wallet, balance])
}
