/**
 * One arm of `failover`: three candidates, and the leader of the moment is killed, stopped for longer than
 * its TTL, or told to resign, again and again. After each a new leader writes first; then the deposed one
 * wakes up, where it can, and writes by its old term.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { monotonicUs } from '../../time.ts'
import type { Trial, TrialWorker } from '../../trial.ts'
import type { Ground } from '../ground/ground.ts'
import { type Book, bookIn, prepareBook, type Row } from './book.ts'
import type { CandidateInput } from './candidates.ts'
import { type Keeper, type KeeperName, startKeeper } from './stores.ts'

export type LeaderFault = 'kill' | 'stop' | 'resign'

export interface FailoverPlan {
  readonly keeper: KeeperName
  readonly ttlMs: number
  readonly faults: readonly LeaderFault[]
  readonly isBare?: true
}

const CANDIDATES = 3
/** Some rounds more than are wanted, for those that do not count. */
const SPARE_SHARE = 0.5
const LEADER_MS_MAX = 60_000
const POLL_MS = 5

/** What the store itself says in the end: every accepted write, in order. */
export function failoverOf(
  ground: Ground,
  plan: FailoverPlan,
): (trial: Trial) => Promise<readonly Row[]> {
  return async (trial) => {
    const data = await ground.openData(trial.addresses, 'lab')
    trial.onEnd(() => data.close())
    await prepareBook(data)
    const keeper = await startKeeper(trial, plan.keeper)
    const stage = new Stage(trial, plan, keeper, bookIn(data, false))
    await stage.fill()
    const tries = Math.ceil(trial.rounds * (1 + SPARE_SHARE))
    let counted = 0
    for (let round = 0; round < tries && counted < trial.rounds; round++) {
      if (await stage.round(round)) counted += 1
      trial.progress(counted)
    }
    await stage.end()
    return stage.rows()
  }
}

interface Leader {
  readonly token: bigint
  readonly worker: TrialWorker
}

class Stage {
  readonly #trial: Trial
  readonly #plan: FailoverPlan
  readonly #keeper: Keeper
  readonly #book: Book
  readonly #candidates = new Map<string, { worker: TrialWorker; work: Promise<unknown> }>()
  #started = 0
  #leader: Leader | null = null

  constructor(trial: Trial, plan: FailoverPlan, keeper: Keeper, book: Book) {
    this.#trial = trial
    this.#plan = plan
    this.#keeper = keeper
    this.#book = book
  }

  rows(): Promise<readonly Row[]> {
    return this.#book.rows(this.#trial.place)
  }

  /** As many as there should be. */
  async fill(): Promise<void> {
    while (this.#candidates.size < CANDIDATES) {
      this.#started += 1
      const worker = await this.#trial.startWorker(`candidate ${this.#started}`)
      const { addresses, place: electionName } = this.#trial
      const { ttlMs, isBare = false } = this.#plan
      const { reach } = this.#keeper
      const input: CandidateInput = { addresses, reach, electionName, ttlMs, isBare }
      const work = worker.run('stand', 0, input)
      // One that is killed has no end; of the others the lab hears when it ends them.
      work.catch(() => {})
      this.#candidates.set(worker.role, { worker, work })
      await Promise.race([worker.until('standing'), work])
    }
  }

  /** @returns whether it counts: the fault met who led, each time. */
  async round(round: number): Promise<boolean> {
    let counts = true
    await this.#noteGranted(round)
    for (const fault of this.#plan.faults) {
      this.#leader ??= await this.#leaderAfter(0n)
      const { token, worker } = this.#leader
      // At any moment between two renewals.
      await sleep((this.#plan.ttlMs / 3) * this.#trial.draw(`${fault} ${round}`))
      const led = (await this.#leaderAfter(token - 1n)).token
      await this.#strike(round, fault, worker, token)
      const next = await this.#leaderAfter(token)
      if (fault !== 'kill') await this.#late(round, fault, worker, token)
      // It had lost its term by itself, on a machine that is too busy: somebody else was leading already.
      counts &&= led === token
      this.#leader = next
      await this.fill()
    }
    this.#trial.note(round, 'round', monotonicUs(), { answer: counts ? 'counts' : 'missed' })
    return counts
  }

  async end(): Promise<void> {
    for (const { worker } of this.#candidates.values()) worker.mark('end')
    await Promise.all([...this.#candidates.values()].map(({ work }) => work))
  }

  /** The TTL of whoever leads, where the store may grant another one than was asked for. */
  async #noteGranted(round: number): Promise<void> {
    this.#leader ??= await this.#leaderAfter(0n)
    const calledAtUs = monotonicUs()
    const value = await this.#keeper.grantedTtlMs(this.#trial.place)
    if (value !== null) this.#trial.note(round, 'granted', calledAtUs, { answer: 'seen', value })
  }

  async #strike(
    round: number,
    fault: LeaderFault,
    worker: TrialWorker,
    token: bigint,
  ): Promise<void> {
    const how = {
      kill: () => worker.kill(),
      stop: () => worker.freeze(),
      resign: async () => worker.mark(`resign ${token}`),
    }
    await this.#trial.call(round, fault, async () => {
      await how[fault]()
      return { answer: 'done', token: `${token}` }
    })
    if (fault === 'kill') this.#candidates.delete(worker.role)
  }

  /** The deposed leader wakes up, when somebody else has written, and writes by its old term. */
  async #late(
    round: number,
    fault: LeaderFault,
    worker: TrialWorker,
    token: bigint,
  ): Promise<void> {
    worker.mark(`late ${token}`)
    if (fault === 'stop') {
      await this.#trial.call(round, 'wake', async () => {
        worker.thaw()
        return { answer: 'done', token: `${token}` }
      })
    }
    await worker.until(`done late ${token}`)
  }

  /** Who wrote first in a later term than `token`, by the store's own account. */
  async #leaderAfter(token: bigint): Promise<Leader> {
    const giveUpAtMs = performance.now() + LEADER_MS_MAX
    for (;;) {
      const rows = await this.rows()
      const row = rows.findLast(({ term }) => BigInt(term) > token)
      const candidate = row && this.#candidates.get(row.writer)
      if (row && candidate) {
        // What it wrote down about it has arrived by then.
        await candidate.worker.until(`led ${row.term}`)
        return { token: BigInt(row.term), worker: candidate.worker }
      }
      if (performance.now() > giveUpAtMs) {
        throw new Error(`nobody led within ${LEADER_MS_MAX} ms after term ${token}`)
      }
      await sleep(POLL_MS)
    }
  }
}
