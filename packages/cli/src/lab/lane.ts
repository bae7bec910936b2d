/**
 * A lane: one process for each role of a scenario, and the lab's part of the rounds that they do:
 * it starts the round, passes marks on, pauses whom the fault wants paused, and collects what they
 * wrote down.
 */
import type { PauseKind } from './faults/index.ts'
import type { DrawId, Entry, Outcome } from './history.ts'
import type { FromWorker } from './messages.ts'
import type { Addresses, Place, Scenario, Stores } from './scenario.ts'
import { monotonicUs } from './time.ts'
import { WorkerProcess } from './worker-process.ts'

/** A round takes about a second, and up to 30 s until a worker misses a mark and says so. */
const ROUND_MS_MAX = 60_000
/** Starting dozens of Node processes on two cores takes seconds. */
const READY_MS_MAX = 120_000

export interface LaneOptions {
  readonly scenario: Scenario
  /** URL of the module of the scenario, for the workers. */
  readonly module: string
  readonly kind: PauseKind
  readonly addresses: Addresses
  /** The lab's own connections. */
  readonly stores: Stores
}

/** What one performance of a round is waiting for. */
interface Performance {
  readonly id: DrawId
  readonly place: string
  readonly entries: Entry[]
  readonly rolesAtWork: Set<string>
  readonly settle: () => void
}

export class Lane {
  readonly number: number
  readonly #options: LaneOptions
  readonly #workers: readonly WorkerProcess[]
  readonly #failed: Promise<never>
  #fail: (error: Error) => void = () => {}
  #performance: Performance | null = null
  readonly #starting = new Set<string>()
  #allReady: () => void = () => {}

  private constructor(number: number, options: LaneOptions) {
    this.number = number
    this.#options = options
    this.#failed = new Promise((_, reject) => {
      this.#fail = reject
    })
    // It is looked at by whatever waits just then; nobody may be waiting when a worker dies.
    this.#failed.catch(() => {})
    const { scenario, kind } = options
    this.#workers = scenario.roles.map((role) => {
      this.#starting.add(role)
      return new WorkerProcess(
        role,
        role === scenario.fault.role ? kind.execArgv : [],
        (message) => this.#hear(role, message),
        (error) => this.#fail(error),
      )
    })
  }

  /** Starts its processes and resolves when all of them have opened what they need. */
  static async start(number: number, options: LaneOptions): Promise<Lane> {
    const lane = new Lane(number, options)
    try {
      await lane.#setUp()
      return lane
    } catch (error) {
      await lane.kill()
      throw error
    }
  }

  /** Does one round once. Rejects when a worker fails or dies, or when it does not come to an end. */
  async run(id: DrawId, place: Place, jitterMs: number): Promise<readonly Entry[]> {
    const entries: Entry[] = []
    const rolesAtWork = new Set(this.#options.scenario.roles)
    const allDone = new Promise<void>((settle) => {
      this.#performance = { id, place: place.name, entries, rolesAtWork, settle }
    })
    try {
      for (const worker of this.#workers) {
        worker.send({ type: 'round', id, place: place.name, jitterMs })
      }
      await this.#within(allDone, ROUND_MS_MAX, `${id.arm}, round ${id.round}`)
      return entries
    } finally {
      this.#performance = null
    }
  }

  async end(): Promise<void> {
    await Promise.all(this.#workers.map((worker) => worker.end()))
  }

  /** A round that it is doing just then rejects. Calling twice is safe. */
  async kill(): Promise<void> {
    this.#fail(new Error(`lane ${this.number} was ended`))
    await Promise.all(this.#workers.map((worker) => worker.kill()))
  }

  async #setUp(): Promise<void> {
    const { module, kind, addresses } = this.#options
    const ready = new Promise<void>((resolve) => {
      this.#allReady = resolve
    })
    const siblings = this.#workers.map((worker) => worker.identity())
    for (const worker of this.#workers) {
      const { role } = worker
      worker.send({ type: 'set-up-rounds', module, role, pauseKind: kind.name, addresses })
      worker.send({ type: 'siblings', siblings })
    }
    await this.#within(ready, READY_MS_MAX, `starting lane ${this.number}`)
  }

  async #within(work: Promise<void>, limitMs: number, what: string): Promise<void> {
    let timer: NodeJS.Timeout | undefined
    const late = new Promise<never>((_, reject) => {
      timer = setTimeout(() => reject(new Error(`${what}: no end within ${limitMs} ms`)), limitMs)
    })
    try {
      await Promise.race([work, late, this.#failed])
    } finally {
      clearTimeout(timer)
    }
  }

  #hear(role: string, message: FromWorker): void {
    switch (message.type) {
      case 'ready':
        this.#starting.delete(role)
        if (this.#starting.size === 0) this.#allReady()
        return
      case 'entries':
        this.#performance?.entries.push(...message.entries)
        return
      case 'mark':
        this.#pass(message.mark, role)
        return
      case 'done':
        this.#performance?.rolesAtWork.delete(role)
        if (this.#performance?.rolesAtWork.size === 0) this.#performance.settle()
        return
      case 'failed':
        this.#fail(new Error(`worker ${role}: ${message.error}`))
        return
      default:
        message satisfies never
    }
  }

  /** Tells everybody else, and does what the lab itself has to do at that mark. */
  #pass(mark: string, from: string | null): void {
    for (const worker of this.#workers) {
      if (worker.role !== from) worker.send({ type: 'mark', mark })
    }
    const { scenario } = this.#options
    const work: Promise<void>[] = []
    if (mark === `${scenario.fault.role}:pausing`) work.push(this.#pauseFromOutside())
    if (mark === scenario.look?.after) work.push(this.#look())
    for (const part of work) part.catch((error: Error) => this.#fail(error))
  }

  async #pauseFromOutside(): Promise<void> {
    const { scenario, kind } = this.#options
    const { role, pauseMs } = scenario.fault
    const target = this.#workers.find((worker) => worker.role === role)
    if (kind.pauseFromOutside === undefined || target === undefined) return
    let calledAtUs = monotonicUs()
    await kind.pauseFromOutside(
      {
        freeze: async () => {
          await target.freeze()
          this.#note('stop', calledAtUs, { answer: 'stopped', detail: role })
        },
        sayGoOn: () => {
          calledAtUs = monotonicUs()
          target.sayGoOn()
        },
        thaw: () => {
          target.thaw()
          this.#note('continue', calledAtUs, { answer: 'continued', detail: role })
        },
      },
      pauseMs,
    )
  }

  async #look(): Promise<void> {
    const { scenario, stores } = this.#options
    const performance = this.#performance
    if (scenario.look === undefined || performance === null) return
    const calledAtUs = monotonicUs()
    const outcome = await scenario.look.act(stores, performance.id, performance.place)
    this.#note('look', calledAtUs, outcome)
    this.#pass('lab:looked', null)
  }

  /** The lab's own entry in the history of the round at hand. */
  #note(op: string, calledAtUs: number, outcome: Outcome): void {
    const performance = this.#performance
    if (performance === null) return
    performance.entries.push(labEntry(performance.id, op, calledAtUs, outcome))
  }
}

/** An entry of the lab itself. */
export function labEntry(id: DrawId, op: string, calledAtUs: number, outcome: Outcome): Entry {
  const times = { calledAtUs, answeredAtUs: monotonicUs(), wallMs: Date.now() }
  return { ...id, process: 'lab', pid: process.pid, op, ...times, ...outcome }
}
