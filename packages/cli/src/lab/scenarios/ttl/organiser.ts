/**
 * One arm of `ttl`: holders that stand still, each for a time that is drawn, and holders that are killed,
 * all with the same TTL. The times are the same in every arm, whatever its TTL, so that arms compare.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { monotonicUs } from '../../time.ts'
import type { Trial, TrialWorker } from '../../trial.ts'
import { type Keeper, type KeeperName, startKeeper } from '../failover/stores.ts'
import type { Ground } from '../ground/ground.ts'
import { openWallet, prepareTables, type WalletState, walletState } from '../wallet/stores.ts'
import type { Contended, FollowInput, HoldInput, PauseInput, PlayerInput } from './programs.ts'

export interface TtlPlan {
  readonly keeper: KeeperName
  readonly ttlMs: number
  readonly isBare: boolean
}

/** Each is a process; with the successor that is all that an arm has. */
const HOLDERS = 3
const PAUSE_MS_MIN = 100
/** More than the longest TTL that takes part, so that at every TTL some pause outlasts the lock. */
const PAUSE_MS_MAX = { short: 6_000, long: 45_000 }
/** Of a run of so many pauses it is known that it may take its time: the long TTLs take part too. */
const LONG_FROM_ROUNDS = 15

export function isLong(rounds: number): boolean {
  return rounds >= LONG_FROM_ROUNDS
}

/** Spread evenly over the orders of magnitude: one in each of as many equal parts, where it is drawn. */
export function pauseMsOf(trial: Pick<Trial, 'rounds' | 'drawForAll'>, round: number): number {
  const { rounds } = trial
  const share = (round + trial.drawForAll(`pause ${round}`)) / rounds
  const longest = isLong(rounds) ? PAUSE_MS_MAX.long : PAUSE_MS_MAX.short
  return Math.round(PAUSE_MS_MIN * (longest / PAUSE_MS_MIN) ** share)
}

/** What the store says of each row in the end: those of the pauses first, then those of the crashes. */
export function ttlOf(
  ground: Ground,
  plan: TtlPlan,
): (trial: Trial) => Promise<readonly WalletState[]> {
  return async (trial) => {
    const data = await ground.openData(trial.addresses, 'lab')
    trial.onEnd(() => data.close())
    await prepareTables(data)
    const stage = new Stage(trial, plan, await startKeeper(trial, plan.keeper))
    for (const { name } of stage.all) await openWallet(data, name, 0)
    await stage.play()
    const rows: WalletState[] = []
    for (const { name } of stage.all) rows.push(await walletState(data, name))
    return rows
  }
}

class Stage {
  /** A lock for each pause, and one for each crash. */
  readonly all: readonly Contended[]
  readonly #trial: Trial
  readonly #input: PlayerInput
  readonly #keeper: Keeper
  readonly #ttlMs: number
  #done = 0

  constructor(trial: Trial, { ttlMs, isBare }: TtlPlan, keeper: Keeper) {
    this.#trial = trial
    this.#keeper = keeper
    this.#ttlMs = ttlMs
    const { reach } = keeper
    this.#input = { addresses: trial.addresses, reach, ttlMs, isBare }
    this.all = Array.from({ length: 2 * trial.rounds }, (_, round) => ({
      round,
      name: `${trial.place}:${String(round).padStart(6, '0')}`,
    }))
  }

  async play(): Promise<void> {
    const successor = await this.#trial.startWorker('B')
    const input: FollowInput = { ...this.#input, all: this.all }
    const following = successor.run('follow', 0, input)
    const holders: TrialWorker[] = []
    for (let number = 1; number <= HOLDERS; number++) {
      holders.push(await this.#trial.startWorker(`A${number}`))
    }
    // It comes to an end before them only by a failure.
    await Promise.race([this.#pauses(holders, successor), following])
    await Promise.race([this.#crashes(holders, successor), following])
    await following
  }

  /** The longest first, so that none of them begins last. */
  async #pauses(holders: readonly TrialWorker[], successor: TrialWorker): Promise<void> {
    const waiting = this.all
      .slice(0, this.#trial.rounds)
      .map((one) => ({ ...one, pauseMs: pauseMsOf(this.#trial, one.round) }))
      .sort((a, b) => b.pauseMs - a.pauseMs)
    const playSome = async (holder: TrialWorker): Promise<void> => {
      for (let one = waiting.shift(); one !== undefined; one = waiting.shift()) {
        const { round, name, pauseMs } = one
        const delayMs = this.#delayMs(`delay ${round}`)
        const input: PauseInput = { ...this.#input, name, delayMs, pauseMs }
        const work = holder.run('pauseOnce', round, input)
        await Promise.race([holder.until('holds'), work])
        successor.mark(`ask ${round}`)
        await work
        this.#done += 1
        this.#trial.progress(this.#done)
      }
    }
    await Promise.all(holders.map((holder) => playSome(holder)))
  }

  /** All at about the same time, at any moment between two renewals of each. */
  async #crashes(holders: readonly TrialWorker[], successor: TrialWorker): Promise<void> {
    const all = this.all.slice(this.#trial.rounds)
    await Promise.all(
      holders.map(async (holder, turn) => {
        const held = all
          .filter((_, at) => at % holders.length === turn)
          .map((one) => ({ ...one, delayMs: this.#delayMs(`delay ${one.round}`) }))
        const input: HoldInput = { ...this.#input, held }
        const work = holder.run('hold', 0, input)
        await Promise.race([holder.until('holding'), work])
        for (const one of held) await this.#noteGranted(one)
        for (const { round } of held) successor.mark(`ask ${round}`)
        await Promise.all(held.map(({ round }) => successor.until(`asks ${round}`)))
        await sleep(this.#delayMs(`kill ${holder.role}`))
        const calledAtUs = monotonicUs()
        await holder.kill()
        for (const { round } of held)
          this.#trial.note(round, 'kill', calledAtUs, { answer: 'done' })
      }),
    )
  }

  async #noteGranted({ round, name }: Contended): Promise<void> {
    const calledAtUs = monotonicUs()
    const value = await this.#keeper.grantedTtlMs(name)
    if (value !== null) this.#trial.note(round, 'granted', calledAtUs, { answer: 'seen', value })
  }

  #delayMs(what: string): number {
    return Math.floor((this.#trial.drawForAll(what) * this.#ttlMs) / 3)
  }
}
