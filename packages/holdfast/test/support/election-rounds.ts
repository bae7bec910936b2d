/** What every store must survive: leaders that are killed, stopped and told to resign, one after the other. */
import { ElectionProcesses, type ElectionStand, type Written } from './election-processes.ts'
import { type SqliteDriver, sqliteDrivers } from './sqlite-drivers.ts'

const ROUNDS = 3
/** `bereave`: one who waits is killed, perhaps the next in the queue, and the leader resigns. */
const FAULTS = ['kill', 'stop', 'resign', 'bereave'] as const

/** How long all rounds may take on a busy machine. */
export const ROUNDS_MS_MAX = 180_000

export interface Verdict {
  /** Accepted writes whose term is below that of an accepted write before. */
  readonly wentBack: number
  /** Terms in which writes of more than one process were accepted. */
  readonly shared: number
  /** Terms that two candidates say they led. */
  readonly repeated: number
  /** What became of the late write of each leader that was stopped, when it woke up. */
  readonly late: readonly string[]
  /** Faults after which somebody wrote in a later term, and another process unless it was `bereave`. */
  readonly succeeded: number
}

/** The only verdict that is safe. */
export const SAFE: Verdict = {
  ...{ wentBack: 0, shared: 0, repeated: 0, succeeded: ROUNDS * FAULTS.length },
  late: Array.from({ length: ROUNDS }, () => 'STALE_TOKEN'),
}

/** The guard, which is the judge, is on SQLite: one driver is enough. */
export const judgeDrivers: readonly SqliteDriver[] = sqliteDrivers().slice(0, 1)

export async function leadThroughFaults(
  driver: SqliteDriver,
  stand: ElectionStand,
): Promise<Verdict> {
  const processes = await ElectionProcesses.open(driver, stand)
  try {
    const { late, succeeded } = await faultAfterFault(processes)
    await processes.end()
    return { ...judge(processes.written(), processes.said()), late, succeeded }
  } finally {
    await processes.close()
  }
}

async function faultAfterFault(
  processes: ElectionProcesses,
): Promise<Pick<Verdict, 'late' | 'succeeded'>> {
  const late: string[] = []
  let succeeded = 0
  let { term, child } = await processes.leaderAfter(0n)
  for (let round = 0; round < ROUNDS; round++) {
    for (const fault of FAULTS) {
      if (fault === 'kill') await processes.kill(child)
      else if (fault === 'bereave') await processes.killWaiting(child)
      if (fault !== 'kill') child.send(fault === 'stop' ? 'stop' : 'resign')
      const next = await processes.leaderAfter(term)
      if (fault === 'stop') late.push(await processes.wake(child, term))
      if (next.child !== child || fault === 'bereave') succeeded += 1
      await processes.fill()
      term = next.term
      child = next.child
    }
  }
  return { late, succeeded }
}

function judge(
  written: readonly Written[],
  said: readonly bigint[],
): Pick<Verdict, 'wentBack' | 'shared' | 'repeated'> {
  const pids = new Map<bigint, Set<number>>()
  let wentBack = 0
  let last = 0n
  for (const { term, pid } of written) {
    if (term < last) wentBack += 1
    last = term
    pids.set(term, (pids.get(term) ?? new Set()).add(pid))
  }
  const shared = [...pids.values()].filter(({ size }) => size > 1).length
  return { wentBack, shared, repeated: said.length - new Set(said).size }
}
