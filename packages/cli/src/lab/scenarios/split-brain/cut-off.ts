/**
 * The arms in which a holder is cut off: it goes on with the nodes that are left on its side, and
 * somebody beyond the partition asks for the same locks. When they were granted there, both write: the
 * new holder first, then the old one, which presents nothing but the token that it was granted.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { monotonicUs } from '../../time.ts'
import type { Trial, TrialWorker } from '../../trial.ts'
import type { DataStores } from '../ground/ground.ts'
import { servers } from '../ground/servers.ts'
import { openWallet, prepareTables, type WalletState, walletState } from '../wallet/stores.ts'
import type { Held, WriteInput } from '../wallet/write-held.ts'
import type { HeldLock } from '../watchdog/holder.ts'
import { locksOf, untilCounted } from '../watchdog/passes.ts'
import { GAP_MS_MAX } from '../watchdog/times.ts'
import type { HoldResult, SideInput } from './holders.ts'
import { noteAlone, type OpenParts, type Parts } from './parts.ts'
import type { Watch } from './watch.ts'

/** As in `watchdog`: told is told a tenth of it before its end. */
export const TTL_MS = 3_000
/** Of whoever comes after: so long that no slow machine ends its hold before its part is over. */
const NEXT_TTL_MS = 60_000

/** What the store says of each round's row, by round. */
export type Rows = readonly WalletState[]

/** @param isBare Nobody looks at tokens: the arm without protection. */
export function cutOff(open: OpenParts, isBare: boolean): (trial: Trial) => Promise<Rows> {
  return async (trial) => {
    const data = await servers.openData(trial.addresses, 'lab')
    trial.onEnd(() => data.close())
    await prepareTables(data)
    const rows: WalletState[] = []
    await untilCounted(trial, async (first, count) => {
      const locks = locksOf(trial, first, count, TTL_MS)
      const counted = await onePass(new Pass(trial, data, locks, isBare), open)
      for (const { name, round } of locks) rows[round] = await walletState(data, name)
      return counted
    })
    return rows
  }
}

/** What the two sides of a pass do, told by the lab. */
class Pass {
  readonly trial: Trial
  readonly locks: readonly HeldLock[]
  readonly #data: DataStores
  readonly #isBare: boolean

  constructor(trial: Trial, data: DataStores, locks: readonly HeldLock[], isBare: boolean) {
    this.trial = trial
    this.locks = locks
    this.#data = data
    this.#isBare = isBare
  }

  async openWallets(): Promise<void> {
    for (const { name } of this.locks) await openWallet(this.#data, name, 0)
  }

  /** A process for each driver; they take turns. */
  async start(
    role: 'A' | 'B',
    program: string,
    { ports, drivers }: Parts,
    ttlMs: number,
  ): Promise<Team> {
    const team: Team = { workers: [], shares: [], work: [] }
    for (const [turn, driver] of drivers.entries()) {
      const locks = this.locks.filter((_, at) => at % drivers.length === turn)
      if (locks.length === 0) continue
      const worker = await this.trial.startWorker(role)
      const input: SideInput = { ports: ports[role], driver, ttlMs, locks }
      const work = worker.run(program, 0, input)
      // It may fail while the lab waits for something else; whoever waits for it is told.
      work.catch(() => {})
      team.workers.push(worker)
      team.shares.push(locks)
      team.work.push(work)
    }
    return team
  }

  /** Each by the process that held it, with the token that it was granted. */
  async write(team: Team, held: readonly (readonly Held[])[], balance: number): Promise<void> {
    const { postgres } = this.trial.addresses
    for (const [turn, worker] of team.workers.entries()) {
      for (const [at, { round }] of (team.shares[turn] ?? []).entries()) {
        const own = held[turn]?.[at]
        if (own === undefined) throw new Error(`nobody held the lock of round ${round}`)
        const bare = this.#isBare ? ({ isBare: true } as const) : {}
        const input: WriteInput = { postgres, held: own, balance, ...bare }
        await worker.run('write', round, input)
      }
    }
  }
}

interface Team {
  readonly workers: TrialWorker[]
  readonly shares: (readonly HeldLock[])[]
  readonly work: Promise<unknown>[]
}

/** @returns how many rounds were those of processes that were running all the time. */
async function onePass(pass: Pass, open: OpenParts): Promise<number> {
  const { trial, locks } = pass
  await pass.openWallets()
  const parts = await open(trial, locks[0]?.round ?? 0)
  const a = await pass.start('A', 'hold', parts, TTL_MS)
  await reached(a, 'holding')
  const watches = await parts.watch(locks)
  const b = await pass.start('B', 'take', parts, NEXT_TTL_MS)
  await reached(b, 'ready')
  // At any moment between two renewals of each.
  await sleep((TTL_MS / 3) * trial.draw(`cut ${locks[0]?.round}`))
  const calledAtUs = monotonicUs()
  await parts.cut()
  for (const { round } of locks) trial.note(round, 'cut', calledAtUs, { answer: 'began' })
  for (const worker of b.workers) worker.mark('ask')
  const next = (await Promise.all(b.work)) as Held[][]
  await noteAlone(trial, parts, locks)
  await seeTheEnd(watches)
  await pass.write(b, next, 2)
  for (const worker of a.workers) worker.mark('over')
  const old = (await Promise.all(a.work)) as HoldResult[]
  await pass.write(
    a,
    old.map(({ held }) => held),
    3,
  )
  await Promise.all([...a.workers, ...b.workers].map((worker) => worker.kill()))
  await parts.end()
  const gaps = [...old.map(({ gapMs }) => gapMs), ...watches.map((watch) => watch.gapMs())]
  return Math.max(...gaps) <= GAP_MS_MAX ? locks.length : 0
}

/** Somebody else has been granted all of them, so the lab sees soon that the old entries are gone. */
async function seeTheEnd(watches: readonly Watch[]): Promise<void> {
  const late = new AbortController()
  // It rejects when it is aborted, which is when nobody waits for it any more.
  const timer = sleep(TTL_MS, undefined, { signal: late.signal }).catch(() => {})
  await Promise.race([Promise.all(watches.map(({ over }) => over)), timer])
  late.abort()
  for (const watch of watches) watch.stop()
}

async function reached(team: Team, mark: string): Promise<void> {
  await Promise.race([
    Promise.all(team.workers.map((worker) => worker.until(mark))),
    // Only a failure ends it here: nobody comes to the end of its work before that mark.
    Promise.all(team.work),
  ])
}
