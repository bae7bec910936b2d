/**
 * One arm of a trial while it is run: what it may start, and the end of all that it started.
 *
 * The order of the end is the reverse of that of the start, so that a client goes before its proxy
 * and a proxy before its server. What an arm starts while it is being ended, because it took too
 * long or another arm failed, is ended at once.
 */
import { type FaultProxy, startProxy } from 'holdfast/testkit'
import { within } from './addresses.ts'
import { draw, drawText } from './draw.ts'
import type { DrawId, History, Outcome } from './history.ts'
import { Notes } from './notes.ts'
import type { Addresses } from './scenario.ts'
import {
  type EtcdCluster,
  type EtcdClusterOptions,
  type EtcdOptions,
  type EtcdServer,
  type PostgresOptions,
  type PostgresServer,
  type RedisOptions,
  type RedisServer,
  startEtcd,
  startEtcdCluster,
  startPostgres,
  startRedis,
} from './servers/index.ts'
import type { Trial, TrialArm, TrialPlan, TrialScenario, TrialWorker } from './trial.ts'
import { TrialProcess } from './trial-process.ts'

export interface RunningTrialOptions {
  readonly scenario: TrialScenario
  /** URL of the module that exports it, for the workers. */
  readonly module: string
  readonly arm: TrialArm
  readonly plan: TrialPlan
  readonly seed: number
  readonly addresses: Addresses
  readonly history: History
  readonly onProgress: (done: number) => void
}

export class RunningTrial implements Trial {
  readonly arm: string
  readonly rounds: number
  readonly size: number
  readonly addresses: Addresses
  readonly place: string
  readonly #options: RunningTrialOptions
  readonly #notes: Notes
  readonly #workers: TrialProcess[] = []
  readonly #ends: (() => Promise<void>)[] = []
  readonly #stopped: Promise<never>
  #stop: (reason: Error) => void = () => {}
  #isOver = false

  constructor(options: RunningTrialOptions) {
    const { scenario, arm, plan, seed, addresses, history } = options
    this.#options = options
    this.arm = arm.name
    this.rounds = plan.rounds
    this.size = plan.size
    this.addresses = within(addresses, arm.name)
    const what = `${scenario.name}/${arm.name}`
    this.place = `${scenario.name}:${arm.name.replace(/[^a-z]+/g, '-')}:${drawText(seed, what)}`
    this.#notes = new Notes('lab', (entry) => history.add([entry]))
    this.#stopped = new Promise((_, reject) => {
      this.#stop = reject
    })
    // It is raced with the arm; nobody may be waiting when it is stopped.
    this.#stopped.catch(() => {})
  }

  /** Runs the arm and ends all that it started. Rejects with what it threw, or when it is late. */
  async run(): Promise<unknown> {
    const { arm, scenario } = this.#options
    const late = new Error(`${arm.name}: no end within ${scenario.armMsMax} ms`)
    const timer = setTimeout(() => this.#stop(late), scenario.armMsMax)
    try {
      const work = arm.run(this)
      // When it is stopped, what it does then still fails on what is gone, and is no news.
      work.catch(() => {})
      return await Promise.race([work, this.#stopped])
    } finally {
      clearTimeout(timer)
      await this.#end()
    }
  }

  /** Another arm failed: this one ends too. */
  stop(reason: Error): void {
    this.#stop(reason)
  }

  draw(what: string): number {
    const { scenario, seed } = this.#options
    return draw(seed, `${scenario.name}/${this.arm}/${what}`)
  }

  drawForAll(what: string): number {
    const { scenario, seed } = this.#options
    return draw(seed, `${scenario.name}/${what}`)
  }

  startRedis(options?: RedisOptions): Promise<RedisServer> {
    return this.#own(startRedis(options), (server) => server.stop())
  }

  startPostgres(options?: PostgresOptions): Promise<PostgresServer> {
    return this.#own(startPostgres(options), (server) => server.stop())
  }

  startEtcd(options?: EtcdOptions): Promise<EtcdServer> {
    return this.#own(startEtcd(options), (server) => server.stop())
  }

  startEtcdCluster(options?: EtcdClusterOptions): Promise<EtcdCluster> {
    return this.#own(startEtcdCluster(options), (cluster) => cluster.stop())
  }

  startProxy(port: number): Promise<FaultProxy> {
    return this.#own(startProxy(port), (proxy) => proxy.close())
  }

  async startWorker(role: string): Promise<TrialWorker> {
    const { module, history } = this.#options
    const onEntries = history.add.bind(history)
    const starting = TrialProcess.start({ arm: this.arm, role, module, onEntries })
    const worker = await this.#own(starting, (started) => started.kill())
    this.#workers.push(worker)
    const siblings = this.#workers.map((one) => one.identity())
    for (const one of this.#workers) one.knowSiblings(siblings)
    return worker
  }

  onEnd(close: () => Promise<void>): void {
    this.#ends.push(close)
  }

  call<O extends Outcome>(round: number, op: string, act: () => Promise<O>): Promise<O> {
    return this.#notes.call(this.#id(round), op, act)
  }

  note(round: number, op: string, calledAtUs: number, outcome: Outcome): void {
    this.#notes.note(this.#id(round), op, calledAtUs, outcome)
  }

  progress(roundsDone: number): void {
    this.#options.onProgress(roundsDone)
  }

  #id(round: number): DrawId {
    return { arm: this.arm, lane: 0, round, draw: 0 }
  }

  async #own<T>(starting: Promise<T>, end: (thing: T) => Promise<void>): Promise<T> {
    const thing = await starting
    if (this.#isOver) {
      await end(thing)
      throw new Error(`${this.arm} is over`)
    }
    this.#ends.push(() => end(thing))
    return thing
  }

  /** Everything is tried, whatever fails; then the first failure is reported. */
  async #end(): Promise<void> {
    this.#isOver = true
    const errors: unknown[] = []
    for (const end of this.#ends.reverse()) {
      await end().catch((error: unknown) => errors.push(error))
    }
    if (errors.length > 0) throw errors[0]
  }
}
