/** What the arms share in which many locks are held at once: passes, names, and the holders. */
import type { Trial, TrialWorker } from '../../trial.ts'
import type { HeldLock, HolderInput } from './holder.ts'

const LOCKS_AT_ONCE = 20
/** At most as many passes again as there should be: a busy machine must not make it endless. */
const PASSES_MAX = 2

/** @param pass Does rounds from `first` on; resolves with how many of them count. */
export async function untilCounted(
  trial: Trial,
  pass: (first: number, count: number) => Promise<number>,
): Promise<void> {
  const passesMax = PASSES_MAX * Math.ceil(trial.rounds / LOCKS_AT_ONCE) + 1
  let counted = 0
  let first = 0
  for (let number = 0; number < passesMax && counted < trial.rounds; number++) {
    const count = Math.min(LOCKS_AT_ONCE, trial.rounds - counted)
    counted += await pass(first, count)
    first += count
    trial.progress(counted)
  }
}

export function sumOf(counts: readonly unknown[]): number {
  return counts.reduce<number>((sum, count) => sum + Number(count), 0)
}

/** Names of one length, so that none is the beginning of another. */
export function locksOf(trial: Trial, first: number, count: number, ttlMs: number): HeldLock[] {
  return Array.from({ length: count }, (_, index) => {
    const round = first + index
    const name = `${trial.place}:${String(round).padStart(6, '0')}`
    return { round, name, delayMs: Math.floor((trial.draw(`delay ${round}`) * ttlMs) / 3) }
  })
}

/** Who holds with what, and what each has to know to reach the store. */
export interface Holders {
  readonly clients: readonly string[]
  readonly store: object
  readonly ttlMs: number
}

/** A process for each client; they take turns. */
export async function startHolders(
  trial: Trial,
  { clients, store, ttlMs }: Holders,
  locks: readonly HeldLock[],
  program: string,
): Promise<{ workers: TrialWorker[]; work: Promise<unknown>[] }> {
  const shares = clients
    .map((client, index) => ({
      client,
      locks: locks.filter((_, at) => at % clients.length === index),
    }))
    .filter((share) => share.locks.length > 0)
  const workers = await Promise.all(shares.map(({ client }) => trial.startWorker(client)))
  const work = workers.map((worker, index) => {
    const share = shares[index] as (typeof shares)[number]
    const input: HolderInput<object> = { ...store, ttlMs, ...share }
    return worker.run(program, 0, input)
  })
  await Promise.all(workers.map((worker) => worker.until('holding')))
  return { workers, work }
}
