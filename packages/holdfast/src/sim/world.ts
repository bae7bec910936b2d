/**
 * A schedule: three processes with the real engine, a lock store and a data store across a network, and
 * what befalls them, all from one seed.
 *
 * The lock store is the real memory backend in a process of its own; the data store runs the real guard.
 */
import { memoryBackendWith } from '../backends/memory/memory.ts'
import type { Backend } from '../core/backend.ts'
import { createLocksWith } from '../lock/lock.ts'
import { type Counter, contend, type Place } from './contender.ts'
import { Data } from './data.ts'
import { emptyHistory, type History } from './history.ts'
import { type Violation, violationsOf } from './invariants.ts'
import { Link } from './link.ts'
import { Observer } from './observer.ts'
import { Process } from './process.ts'
import { Random } from './random.ts'
import { remoteBackend } from './remote-backend.ts'
import { SCENARIOS, type Scenario, type ScenarioName } from './scenarios.ts'
import { Scheduler } from './scheduler.ts'

const TTL_MS = 400
const PROCESSES = 3
const CONTENDERS_EACH = 3
const LOCK_NAMES = ['a', 'b'] as const
/** Of true time, for a schedule: ten lifetimes of a lease. */
const STOP_MS = 4000
/** What is on its way arrives, and every lease ends. */
const END_MS = 6000
const REBORN_AFTER_MS = 50

export interface Outcome {
  readonly history: History
  readonly violations: readonly Violation[]
  readonly events: number
  readonly trace: readonly string[]
}

/** @param keepsTrace Makes the trace too, which is slow. */
export async function runSchedule(
  seed: number,
  name: ScenarioName,
  keepsTrace = false,
): Promise<Outcome> {
  const world = new World(seed, SCENARIOS[name], keepsTrace)
  return world.run()
}

type Inhabitant = Readonly<{ process: Process; links: readonly Link[] }>

class World {
  readonly #scheduler: Scheduler
  readonly #random: Random
  readonly #scenario: Scenario
  readonly #history = emptyHistory()
  readonly #observer: Observer
  readonly #lockProcess: Process
  readonly #store: Backend
  readonly #dataProcess: Process
  readonly #data: Data
  readonly #writes: Counter = { last: 0 }
  #inhabitants: Inhabitant[] = []
  #born = 0

  constructor(seed: number, scenario: Scenario, keepsTrace: boolean) {
    this.#scheduler = new Scheduler(keepsTrace)
    this.#random = new Random(seed)
    this.#scenario = scenario
    this.#observer = new Observer(this.#history)
    this.#lockProcess = this.#process('locks')
    this.#store = memoryBackendWith(this.#lockProcess.seams)
    this.#dataProcess = this.#process('data')
    this.#data = new Data(this.#dataProcess)
  }

  async run(): Promise<Outcome> {
    for (let count = 0; count < PROCESSES; count++) this.#inhabitants.push(this.#bear())
    this.#planAccidents()
    const scheduler = this.#scheduler
    await scheduler.run(END_MS, () => this.#observer.look(scheduler.nowMs))
    for (const name of LOCK_NAMES) this.#history.registers.set(name, this.#data.register(name))
    return {
      history: this.#history,
      violations: violationsOf(this.#history, this.#scenario.hasBoundedClocks),
      events: scheduler.count,
      trace: scheduler.trace ?? [],
    }
  }

  #process(name: string): Process {
    const rate = 1 + (this.#random.next() - 0.5) * this.#scenario.rateSpread
    return new Process(name, this.#scheduler, this.#random, rate)
  }

  /** A new process, with locks and contenders of its own. */
  #bear(): Inhabitant {
    this.#born += 1
    const process = this.#process(`p${this.#born}`)
    const random = this.#random
    const { weather, dataWeather } = this.#scenario
    const lockLink = new Link(process, this.#lockProcess, random, weather)
    const dataLink = new Link(process, this.#dataProcess, random, dataWeather)
    const backend = remoteBackend(process, lockLink, this.#store)
    const place: Place = {
      process,
      locks: createLocksWith(process.seams, backend, { ttlMs: TTL_MS }),
      data: this.#data,
      dataLink,
      observer: this.#observer,
      history: this.#history,
      random,
      scenario: this.#scenario,
      writes: this.#writes,
      ttlMs: TTL_MS,
      stopAtMs: STOP_MS,
    }
    for (let count = 0; count < CONTENDERS_EACH; count++) {
      process.deliver(this.#scheduler.nowMs + random.between(0, 20), () => {
        void contend(place, LOCK_NAMES)
      })
    }
    return { process, links: [lockLink, dataLink] }
  }

  #planAccidents(): void {
    const random = this.#random
    const { everyMs } = this.#scenario
    const one = (): Process => random.pick(this.#inhabitants).process
    this.#every(everyMs.pause, () => one().pause(random.between(0, 2.2 * TTL_MS)))
    this.#every(everyMs.suspend, () => one().suspend(random.between(0, 2 * TTL_MS)))
    this.#every(everyMs.death, () => this.#kill())
    this.#every(everyMs.cut, () => this.#cut())
    this.#every(everyMs.storePause, () => {
      random.pick([this.#lockProcess, this.#dataProcess]).pause(random.between(0, TTL_MS))
    })
    this.#every(everyMs.storeStep, () => {
      const process = this.#lockProcess
      process.stepMonotonic(random.between(0, 2 * TTL_MS))
      process.stepWall(random.between(-3 * TTL_MS, 3 * TTL_MS))
    })
    this.#every(everyMs.wallStep, () => one().stepWall(random.between(-2000, 2000)))
  }

  #every(meanMs: number, accident: () => void): void {
    if (meanMs === Number.POSITIVE_INFINITY) return
    const plan = (): void => {
      const atMs = this.#scheduler.nowMs + this.#random.between(0, 2 * meanMs)
      if (atMs >= STOP_MS) return
      this.#scheduler.at(atMs, () => {
        accident()
        plan()
      })
    }
    plan()
  }

  #kill(): void {
    const victim = this.#random.pick(this.#inhabitants)
    victim.process.die()
    this.#scheduler.at(this.#scheduler.nowMs + REBORN_AFTER_MS, () => {
      this.#inhabitants = this.#inhabitants.map((one) => (one === victim ? this.#bear() : one))
    })
  }

  #cut(): void {
    const { process, links } = this.#random.pick(this.#inhabitants)
    const link = this.#random.pick(links)
    const forMs = this.#random.between(0, 2 * TTL_MS)
    process.note(() => `is cut off from a store for ${forMs.toFixed(0)} ms`)
    link.isCut = true
    this.#scheduler.at(this.#scheduler.nowMs + forMs, () => {
      link.isCut = false
    })
  }
}
