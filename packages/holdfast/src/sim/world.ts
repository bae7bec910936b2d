/**
 * A schedule: three processes with the real engine, a lock store and a data store across a network, and
 * what befalls them, all from one seed.
 *
 * The lock store is a real backend, of memory in a process of its own, or of Redis with models of
 * nodes behind it; the data store runs the real guard.
 */
import { createLocksWith } from '../lock/lock.ts'
import { type Counter, contend, type Place } from './contender.ts'
import { Data } from './data.ts'
import { emptyHistory, type History } from './history.ts'
import { type Violation, violationsOf } from './invariants.ts'
import { Link } from './link.ts'
import { Observer } from './observer.ts'
import { Process } from './process.ts'
import { Random } from './random.ts'
import {
  SCENARIOS,
  type Scenario,
  type ScenarioName,
  TTL_MS,
  type WorldName,
  worldOf,
} from './scenarios.ts'
import { Scheduler } from './scheduler.ts'
import { memoryStore } from './stores/memory.ts'
import { redisStore } from './stores/redis.ts'
import { redlockStore } from './stores/redlock.ts'
import type { Ground, LockStore } from './stores/store.ts'
import { watchedBackend } from './watched-backend.ts'

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

/**
 * @param keepsTrace Makes the trace too, which is slow.
 * @param world Absent: the one that the seed draws.
 */
export async function runSchedule(
  seed: number,
  name: ScenarioName,
  keepsTrace = false,
  world: WorldName = worldOf(name, seed),
): Promise<Outcome> {
  return new World(seed, SCENARIOS[name], world, keepsTrace).run()
}

const STORES: Readonly<Record<WorldName, (ground: Ground) => LockStore>> = {
  memory: memoryStore,
  redis: redisStore,
  redlock3: (ground) => redlockStore(ground, 3),
  redlock5: (ground) => redlockStore(ground, 5),
}

type Inhabitant = Readonly<{ process: Process; links: readonly Link[] }>

class World {
  readonly #scheduler: Scheduler
  readonly #random: Random
  readonly #scenario: Scenario
  readonly #history = emptyHistory()
  readonly #observer: Observer
  readonly #store: LockStore
  readonly #dataProcess: Process
  readonly #data: Data
  readonly #writes: Counter = { last: 0 }
  #inhabitants: Inhabitant[] = []
  #born = 0

  constructor(seed: number, scenario: Scenario, world: WorldName, keepsTrace: boolean) {
    this.#scheduler = new Scheduler(keepsTrace)
    this.#random = new Random(seed)
    this.#scenario = scenario
    this.#observer = new Observer(this.#history)
    this.#store = STORES[world]({
      random: this.#random,
      scenario,
      history: this.#history,
      process: (name) => this.#process(name),
    })
    this.#dataProcess = this.#process('data')
    this.#data = new Data(this.#dataProcess)
  }

  async run(): Promise<Outcome> {
    for (let count = 0; count < PROCESSES; count++) this.#inhabitants.push(this.#bear())
    this.#planAccidents()
    this.#store.prepare?.()
    const scheduler = this.#scheduler
    scheduler.at(STOP_MS, () => this.#observer.stopWaiting())
    await scheduler.run(END_MS, () => {
      this.#observer.look(scheduler.nowMs)
      this.#store.look(scheduler.nowMs)
    })
    for (const name of LOCK_NAMES) this.#history.registers.set(name, this.#data.register(name))
    return {
      history: this.#history,
      violations: violationsOf(this.#history, this.#scenario),
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
    const { backend, links } = this.#store.reach(process)
    const dataLink = new Link(process, this.#dataProcess, random, this.#scenario.dataWeather)
    const watched = watchedBackend(process, backend, this.#history)
    const place: Place = {
      process,
      locks: createLocksWith(process.seams, watched, { ttlMs: TTL_MS }),
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
    return { process, links: [...links, dataLink] }
  }

  #planAccidents(): void {
    const random = this.#random
    const { everyMs, pauseMs, wallStepMs } = this.#scenario
    const { accidents } = this.#store
    const one = (): Process => random.pick(this.#inhabitants).process
    this.#every(everyMs.pause, () => one().pause(random.between(...pauseMs)))
    this.#every(everyMs.suspend, () => one().suspend(random.between(0, 2 * TTL_MS)))
    this.#every(everyMs.death, () => this.#kill())
    this.#every(everyMs.cut, () => this.#cut())
    this.#every(everyMs.wallStep, () => one().stepWall(random.between(...wallStepMs)))
    this.#every(everyMs.storePause, () => {
      if (random.chance(0.5)) accidents.pause?.()
      else this.#dataProcess.pause(random.between(0, TTL_MS))
    })
    this.#every(everyMs.storeStep, accidents.step)
    this.#every(everyMs.storeRate, accidents.rate)
    this.#every(everyMs.storeStop, accidents.stop)
    this.#every(everyMs.storeLoss, accidents.loss)
  }

  /** @param accident Undefined: it makes no sense here. */
  #every(meanMs: number, accident: (() => void) | undefined): void {
    if (meanMs === Number.POSITIVE_INFINITY || accident === undefined) return
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
