/** A worker of a trial, seen from the lab: its jobs, what it reaches, its end. */
import type { Entry } from './history.ts'
import { Marks } from './marks.ts'
import type { FromWorker, Sibling } from './messages.ts'
import type { TrialWorker } from './trial.ts'
import { WorkerProcess } from './worker-process.ts'

/** Longer than any step of a trial takes on a busy machine. */
const MARK_MS_MAX = 60_000
/** A Node process starts in a fifth of a second; with every core taken it may take far longer. */
const READY_MS_MAX = 60_000

interface RunningJob {
  readonly resolve: (result: unknown) => void
  readonly reject: (error: Error) => void
}

export interface TrialProcessOptions {
  readonly arm: string
  readonly role: string
  /** URL of the module of the scenario. */
  readonly module: string
  readonly onEntries: (entries: readonly Entry[]) => void
}

export class TrialProcess implements TrialWorker {
  readonly role: string
  readonly #arm: string
  readonly #worker: WorkerProcess
  readonly #onEntries: (entries: readonly Entry[]) => void
  readonly #ready = new Marks(READY_MS_MAX)
  #marks = new Marks(MARK_MS_MAX)
  #job: RunningJob | null = null
  #dead: Error | null = null

  private constructor({ arm, role, onEntries }: TrialProcessOptions) {
    this.role = role
    this.#arm = arm
    this.#onEntries = onEntries
    this.#worker = new WorkerProcess(
      role,
      [],
      (message) => this.#hear(message),
      (error) => this.#die(error),
    )
  }

  /** Resolves when it has loaded the scenario. */
  static async start(options: TrialProcessOptions): Promise<TrialProcess> {
    const started = new TrialProcess(options)
    try {
      const { module, role } = options
      started.#worker.send({ type: 'set-up-trial', module, role })
      await started.#ready.until('ready')
      return started
    } catch (error) {
      await started.kill()
      throw error
    }
  }

  get pid(): number {
    return this.#worker.pid
  }

  identity(): Sibling {
    return this.#worker.identity()
  }

  /** Whom it ends when the lab is gone. */
  knowSiblings(siblings: readonly Sibling[]): void {
    this.#worker.send({ type: 'siblings', siblings })
  }

  run(program: string, round: number, input: unknown): Promise<unknown> {
    if (this.#dead !== null) return Promise.reject(this.#dead)
    if (this.#job !== null) return Promise.reject(new Error(`${this.role} has a job already`))
    this.#marks = new Marks(MARK_MS_MAX)
    const result = new Promise<unknown>((resolve, reject) => {
      this.#job = { resolve, reject }
    })
    // Whoever waits for it hears of a failure; nobody may be waiting just then.
    result.catch(() => {})
    const id = { arm: this.#arm, lane: 0, round, draw: 0 }
    this.#worker.send({ type: 'job', id, program, input })
    return result
  }

  mark(mark: string): void {
    this.#worker.send({ type: 'mark', mark })
  }

  until(mark: string): Promise<void> {
    return this.#marks.until(mark)
  }

  freeze(): Promise<void> {
    return this.#worker.freeze()
  }

  thaw(): void {
    this.#worker.thaw()
  }

  async kill(): Promise<void> {
    await this.#worker.kill()
    this.#die(new Error(`worker ${this.role} (process ${this.pid}) was killed`))
  }

  #hear(message: FromWorker): void {
    switch (message.type) {
      case 'ready':
        this.#ready.reach('ready')
        return
      case 'entries':
        this.#onEntries(message.entries)
        return
      case 'mark':
        this.#marks.reach(message.mark)
        return
      case 'done':
        this.#marks.end(new Error(`${this.role} ended its job before`))
        this.#settle((job) => job.resolve(message.result))
        return
      case 'failed':
        this.#fail(new Error(`worker ${this.role}: ${message.error}`))
        return
      default:
        message satisfies never
    }
  }

  #die(error: Error): void {
    this.#dead ??= error
    this.#fail(this.#dead)
  }

  #fail(error: Error): void {
    this.#ready.end(error)
    this.#marks.end(error)
    this.#settle((job) => job.reject(error))
  }

  #settle(how: (job: RunningJob) => void): void {
    const job = this.#job
    this.#job = null
    if (job !== null) how(job)
  }
}
