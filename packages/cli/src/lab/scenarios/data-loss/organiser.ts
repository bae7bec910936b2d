/**
 * One arm of `data-loss`: rounds in which A holds the lock and has written, the data of Redis are
 * lost, B takes the same lock, B writes, and A writes once more. Each round has a name of its own.
 */
import type { Outcome } from '../../history.ts'
import type { Trial, TrialWorker } from '../../trial.ts'
import { servers } from '../ground/servers.ts'
import { openWallet, prepareTables, type WalletState, walletState } from '../wallet/stores.ts'
import type { Held, WriteInput } from '../wallet/write-held.ts'
import { type Loss, look, type Stand } from './losses.ts'
import type { TakeInput } from './programs.ts'

/** Grants before those that are lost: a counter has come so far that it can fall. */
const EARLIER_GRANTS = 2

/** What the store says of each round's row, by round. */
export type Rows = readonly WalletState[]

export function dataLossBy(loss: Loss, isOurs: boolean): (trial: Trial) => Promise<Rows> {
  return async (trial) => {
    const data = await servers.openData(trial.addresses, 'lab')
    trial.onEnd(() => data.close())
    await prepareTables(data)
    const nextStand = await loss(trial)
    const [a, b] = await Promise.all([trial.startWorker('A'), trial.startWorker('B')])
    const rows: WalletState[] = []
    for (let round = 0; round < trial.rounds; round++) {
      const lockName = `${trial.place}:${round}`
      await openWallet(data, lockName, 0)
      await playRound({ trial, a, b, isOurs, lockName, round }, await nextStand())
      rows.push(await walletState(data, lockName))
      trial.progress(round + 1)
    }
    return rows
  }
}

interface RoundParts {
  readonly trial: Trial
  readonly a: TrialWorker
  readonly b: TrialWorker
  readonly isOurs: boolean
  readonly lockName: string
  readonly round: number
}

async function playRound(parts: RoundParts, stand: Stand): Promise<void> {
  const { trial, a, b, lockName, round } = parts
  await take(parts, a, { port: stand.port, count: EARLIER_GRANTS, keepsLast: false })
  await stand.keep()
  // One or two that a replica does not get: B's token is then equal to A's, or below it.
  const count = 1 + Math.floor(trial.draw(`round ${round}`) * 2)
  const old = await take(parts, a, { port: stand.port, count, keepsLast: true })
  await write(parts, a, old, 1)
  const { port } = await trial.call<Outcome & { readonly port: number }>(round, 'lose', () =>
    stand.lose(),
  )
  await trial.call(round, 'look', () => look(port, lockName))
  const next = await take(parts, b, { port, count: 1, keepsLast: true })
  await write(parts, b, next, 2)
  await write(parts, a, old, 3)
}

async function take(
  { isOurs, lockName, round }: RoundParts,
  worker: TrialWorker,
  how: Pick<TakeInput, 'port' | 'count' | 'keepsLast'>,
): Promise<Held> {
  const input: TakeInput = { ...how, lockName, isOurs }
  return (await worker.run('take', round, input)) as Held
}

async function write(
  { trial, round }: RoundParts,
  worker: TrialWorker,
  held: Held,
  balance: number,
): Promise<void> {
  const input: WriteInput = { postgres: trial.addresses.postgres, held, balance }
  await worker.run('write', round, input)
}
