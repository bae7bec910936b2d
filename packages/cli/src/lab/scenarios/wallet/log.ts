/**
 * Compares what the workers wrote down with what the store logged of one wallet.
 *
 * The log is in the order in which the writes took effect. Each of its rows must belong to a write
 * that a worker wrote down as applied, and each such write to a row. From the pairs follows what no
 * worker can know of itself: a write is a lost update's cause when the balance that it replaced is
 * not the one that it was computed from.
 */
import type { Entry } from '../../history.ts'
import type { LoggedWrite, WalletState } from './stores.ts'

/** A write that took effect, in the worker's words and in the store's. */
export interface AppliedWrite {
  readonly entry: Entry
  readonly row: LoggedWrite
}

export interface WalletAccount {
  readonly applied: readonly AppliedWrite[]
  /** What does not fit together: nothing can be concluded. */
  readonly problems: readonly string[]
  /** What a worker was told and the store says otherwise. */
  readonly untruths: readonly string[]
}

/**
 * @param entries The writes and undos of one wallet, in any order.
 * @param openedWith The balance before the first of them.
 */
export function compareWithLog(
  wallet: string,
  entries: readonly Entry[],
  state: WalletState,
  openedWith = 0,
): WalletAccount {
  const queues = queuesByWriter(entries)
  const applied: AppliedWrite[] = []
  const problems: string[] = []
  const untruths: string[] = []
  for (const row of state.log) {
    const found = takeMatching(queues.get(row.writer) ?? [], row)
    if (found.untrue !== null) {
      const { round, answer, value } = found.untrue
      untruths.push(`${wallet}, round ${round}: the store holds ${value}, answered "${answer}"`)
    }
    if (found.entry === null) {
      problems.push(`${wallet}: nobody wrote down ${row.writer}'s write of ${row.newBalance}`)
    } else applied.push({ entry: found.entry, row })
  }
  for (const entry of [...queues.values()].flat()) {
    if (entry.answer !== 'applied') continue
    const what = `${entry.process}'s write of ${entry.value} was answered "applied"`
    untruths.push(`${wallet}, round ${entry.round}: ${what}, but the store never had it`)
  }
  problems.push(...chainProblems(wallet, state, openedWith), ...orderProblems(wallet, applied))
  return { applied, problems, untruths }
}

function queuesByWriter(entries: readonly Entry[]): Map<string, Entry[]> {
  const queues = new Map<string, Entry[]>()
  for (const entry of [...entries].sort((a, b) => a.answeredAtUs - b.answeredAtUs)) {
    const queue = queues.get(entry.process)
    if (queue === undefined) queues.set(entry.process, [entry])
    else queue.push(entry)
  }
  return queues
}

/** Takes the writer's next write off its queue; writes that had no effect are passed over. */
function takeMatching(
  queue: Entry[],
  row: LoggedWrite,
): { entry: Entry | null; untrue: Entry | null } {
  const next = queue.findIndex(({ answer }) => answer === 'applied')
  if (next >= 0 && queue[next]?.value === row.newBalance) {
    return { entry: queue.splice(0, next + 1)[next] ?? null, untrue: null }
  }
  // No write that is said to be applied fits: one that is said not to be may have been.
  const end = next < 0 ? queue.length : next
  const untrueAt = queue.slice(0, end).findIndex(({ value }) => value === row.newBalance)
  if (untrueAt < 0) return { entry: null, untrue: null }
  const entry = queue.splice(0, untrueAt + 1)[untrueAt] ?? null
  return { entry, untrue: entry }
}

/** Every write begins where the one before it ended, and the last one is what stands there now. */
function chainProblems(
  wallet: string,
  { log, balance }: WalletState,
  openedWith: number,
): string[] {
  const problems: string[] = []
  let standing = openedWith
  for (const { oldBalance, newBalance } of log) {
    if (oldBalance !== standing) {
      problems.push(`${wallet}: the store's log goes from ${standing} to ${oldBalance} by nobody`)
    }
    standing = newBalance
  }
  if (balance !== standing) {
    problems.push(`${wallet}: the balance is ${balance}, the log ends at ${standing}`)
  }
  return problems
}

/** No write can take effect after a later one that began when it had been answered long since. */
function orderProblems(wallet: string, applied: readonly AppliedWrite[]): string[] {
  const problems: string[] = []
  let latest: Entry | null = null
  for (const { entry } of applied) {
    if (latest !== null && entry.answeredAtUs < latest.calledAtUs) {
      const [a, b] = [entry, latest].map(({ process, round }) => `${process} in round ${round}`)
      problems.push(`${wallet}: ${a} wrote before ${b}, the store says after`)
    }
    if (latest === null || entry.calledAtUs > latest.calledAtUs) latest = entry
  }
  return problems
}
