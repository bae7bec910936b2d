/**
 * Runs one scenario: lanes, rounds, rounds drawn again, and at the end the checker's findings.
 *
 * Every lane does its share of every arm's rounds, the arms in an order of its own, so that a busy
 * minute of the machine does not fall on one arm alone. An error of any worker ends the scenario:
 * rounds are drawn again for one reason only, that the fault did not happen as planned.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { within } from './addresses.ts'
import { type ArmVerdict, type Verdict, verdictOf, verdictOfAll } from './checker.ts'
import { draw, drawOrder, drawText } from './draw.ts'
import type { PauseKind } from './faults/index.ts'
import type { History } from './history.ts'
import { Lane, labEntry } from './lane.ts'
import type {
  Addresses,
  Arm,
  ArmFindings,
  Place,
  PlaceState,
  Scenario,
  Stores,
} from './scenario.ts'
import { monotonicUs } from './time.ts'

export interface RunOptions {
  readonly scenario: Scenario
  /** URL of the module that exports it, for the workers. */
  readonly module: string
  readonly addresses: Addresses
  readonly rounds: number
  readonly seed: number
  readonly lanes: number
  readonly kind: PauseKind
  readonly history: History
  readonly onProgress: (progress: Progress) => void
}

export interface Progress {
  readonly arm: string
  readonly roundsDone: number
  readonly redrawn: number
}

export interface ArmResult extends ArmFindings {
  readonly name: string
  readonly protected: boolean
  /** It has protection and shows where that ends: what it claims is what goes wrong. */
  readonly notCovered?: true
  readonly claim: string
  readonly verdict: ArmVerdict
  /** Why it was skipped, in one line. */
  readonly skipped?: string
  /** What its rounds took, shared out over the lanes: the arm alone would have taken this long. */
  readonly elapsedMs: number
}

export interface ScenarioResult {
  readonly name: string
  readonly claim: string
  readonly verdict: Verdict
  readonly lanes: number
  readonly arms: readonly ArmResult[]
  /** What ended the scenario before its time. */
  readonly errors: readonly string[]
}

/** A part of a tenth, but two at least: of three rounds one tenth would be none. */
const REDRAWN_SHARE_MAX = 0.1
const REDRAWN_MIN = 2
/** Lanes begin spread over about one round, so that they do not all work at the same moments. */
const LANE_DELAY_MS_MAX = 600
const JITTER_MS_MAX = 20
/** Processes start a few at a time: each takes a core for a fifth of a second. */
const STARTING_AT_ONCE = 4

export async function runScenario(options: RunOptions): Promise<ScenarioResult> {
  const shares: Share[] = []
  try {
    for (const addresses of addressesOf(options)) {
      shares.push({ addresses, stores: await options.scenario.open(addresses, 'lab') })
    }
    return await new ScenarioRun(options, shares).run()
  } finally {
    await Promise.all(shares.map(({ stores }) => stores.close()))
  }
}

/** Stores that one lane works on, or all of them, with the lab's own connections. */
interface Share {
  readonly addresses: Addresses
  readonly stores: Stores
}

/** Servers are one share for all lanes; of files each lane has its own. */
function addressesOf({ addresses, lanes, rounds }: RunOptions): Addresses[] {
  const count = addresses.sqlite === undefined ? 1 : Math.min(lanes, rounds)
  return Array.from({ length: count }, (_, lane) => within(addresses, `lane-${lane}`))
}

/** How far one arm is, over all lanes. */
interface ArmState {
  readonly arm: Arm
  roundsDone: number
  redrawn: number
  busyMs: number
}

class ScenarioRun {
  readonly #options: RunOptions
  readonly #shares: readonly Share[]
  readonly #laneCount: number
  readonly #places: readonly Place[]
  readonly #arms: ReadonlyMap<string, ArmState>
  readonly #lanes: Lane[] = []
  readonly #errors: string[] = []

  constructor(options: RunOptions, shares: readonly Share[]) {
    this.#options = options
    this.#shares = shares
    this.#laneCount = Math.min(options.lanes, options.rounds)
    const { scenario, seed } = options
    this.#arms = new Map(
      scenario.arms.map((arm) => [arm.name, { arm, roundsDone: 0, redrawn: 0, busyMs: 0 }]),
    )
    const lanes = Array.from({ length: this.#laneCount }, (_, lane) => lane)
    this.#places = scenario.arms.flatMap(({ name: arm }) =>
      lanes.map((lane) => {
        const drawn = drawText(seed, `${scenario.name}/${arm}/${lane}`)
        const slug = arm.replace(/[^a-z]+/g, '-')
        return { arm, lane, name: `${scenario.name}:${slug}:${lane}:${drawn}` }
      }),
    )
  }

  async run(): Promise<ScenarioResult> {
    const { scenario } = this.#options
    try {
      for (const share of this.#shares) {
        const places = this.#places.filter(({ lane }) => this.#shareOf(lane) === share)
        await scenario.prepare(share.stores, places)
      }
      await this.#startLanes()
      await Promise.all(this.#lanes.map((lane) => this.#work(lane)))
      await Promise.all(this.#lanes.map((lane) => lane.end()))
    } catch (error) {
      this.#giveUp(error)
    } finally {
      await Promise.all(this.#lanes.map((lane) => lane.kill()))
    }
    return this.#result()
  }

  async #startLanes(): Promise<void> {
    const { scenario, module, kind } = this.#options
    let next = 0
    const startSome = async (): Promise<void> => {
      for (let number = next++; number < this.#laneCount; number = next++) {
        this.#lanes.push(
          await Lane.start(number, { scenario, module, kind, ...this.#shareOf(number) }),
        )
      }
    }
    const results = await Promise.allSettled(
      Array.from({ length: STARTING_AT_ONCE }, () => startSome()),
    )
    for (const result of results) if (result.status === 'rejected') throw result.reason
  }

  /** Every round of every arm that falls to this lane. */
  async #work(lane: Lane): Promise<void> {
    const { scenario, seed, rounds } = this.#options
    try {
      const what = `${scenario.name}/lane ${lane.number}`
      await sleep(draw(seed, what) * LANE_DELAY_MS_MAX)
      for (const arm of drawOrder(seed, what, scenario.arms)) {
        for (let round = lane.number; round < rounds; round += this.#laneCount) {
          if (this.#errors.length > 0) return
          await this.#playRound(lane, arm.name, round)
        }
      }
    } catch (error) {
      this.#giveUp(error)
    }
  }

  /** One round, again if the fault did not happen as planned, as long as the arm's tenth lasts. */
  async #playRound(lane: Lane, arm: string, round: number): Promise<void> {
    const { scenario, seed, history, onProgress } = this.#options
    const state = this.#arms.get(arm)
    const place = this.#places.find((p) => p.arm === arm && p.lane === lane.number)
    if (state === undefined || place === undefined) throw new Error(`no such arm: ${arm}`)
    const jitterMs = draw(seed, `${scenario.name}/${arm}/round ${round}`) * JITTER_MS_MAX
    for (let drawNumber = 0; this.#mayDraw(state); drawNumber++) {
      const id = { arm, lane: lane.number, round, draw: drawNumber }
      const beganAtMs = performance.now()
      const remembered = await scenario.remember(this.#shareOf(lane.number).stores, place, id)
      const entries = await lane.run(id, place, jitterMs)
      history.add(entries)
      state.busyMs += performance.now() - beganAtMs
      const isAsPlanned = scenario.isAsPlanned(entries)
      if (isAsPlanned) state.roundsDone++
      else {
        state.redrawn++
        const calledAtUs = monotonicUs()
        const outcome = await scenario.undo(this.#shareOf(lane.number).stores, place, remembered)
        history.add([labEntry(id, 'undo', calledAtUs, outcome)])
      }
      onProgress({ arm, roundsDone: state.roundsDone, redrawn: state.redrawn })
      if (isAsPlanned) return
    }
  }

  #shareOf(lane: number): Share {
    const share = this.#shares[lane % this.#shares.length]
    if (share === undefined) throw new Error(`lane ${lane} has nothing to work on`)
    return share
  }

  #mayDraw(state: ArmState): boolean {
    return state.redrawn <= redrawnMax(this.#options.rounds)
  }

  /** The first error counts; what follows from it, workers that die with it, is no news. */
  #giveUp(error: unknown): void {
    if (this.#errors.length > 0) return
    this.#errors.push(error instanceof Error ? (error.stack ?? error.message) : String(error))
    for (const lane of this.#lanes) void lane.kill()
  }

  async #result(): Promise<ScenarioResult> {
    const { scenario } = this.#options
    const arms: ArmResult[] = []
    for (const arm of scenario.arms) arms.push(await this.#armResult(arm))
    return {
      name: scenario.name,
      claim: scenario.claim,
      verdict: verdictOfAll(arms),
      lanes: this.#laneCount,
      arms,
      errors: this.#errors,
    }
  }

  async #armResult(arm: Arm): Promise<ArmResult> {
    const { scenario, rounds, history } = this.#options
    const finals: PlaceState[] = []
    for (const place of this.#places.filter((p) => p.arm === arm.name)) {
      finals.push({ place, state: await this.#finalState(place) })
    }
    history.writeLines(finals.map((final) => ({ final })))
    const { name, protected: isProtected, notCovered, claim } = arm
    const face = { name, protected: isProtected, ...(notCovered && { notCovered }), claim }
    const record = { arm: { name, protected: isProtected }, rounds, fault: scenario.fault }
    const findings = scenario.check({ ...record, entries: history.of(name), finals })
    const verdict = verdictOf(record.arm, rounds, findings)
    const elapsedMs = Math.round((this.#arms.get(name)?.busyMs ?? 0) / this.#laneCount)
    return { ...face, verdict, elapsedMs, ...findings }
  }

  /** Null when the store does not answer any more; the checker then has nothing to go by. */
  async #finalState(place: Place): Promise<unknown> {
    try {
      return await this.#options.scenario.finalState(this.#shareOf(place.lane).stores, place)
    } catch (error) {
      this.#giveUp(error)
      return null
    }
  }
}

/** How many rounds of an arm may be drawn again. */
function redrawnMax(rounds: number): number {
  return Math.max(REDRAWN_MIN, Math.floor(rounds * REDRAWN_SHARE_MAX))
}
