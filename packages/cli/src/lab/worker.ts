/**
 * A worker: one process, one role, one lane. It does what its scenario's program says and tells the
 * lab of every operation. It decides nothing about the experiment's outcome.
 *
 * When the pipe to the lab breaks, the lab is dead. A worker that stands still by SIGSTOP cannot
 * see that and would stay for ever, so those that run end their siblings too.
 */
import { pauseKind } from './faults/index.ts'
import type { Entry, Outcome } from './history.ts'
import type { FromWorker, Sibling, ToWorker } from './messages.ts'
import type { Round, Scenario, Stores } from './scenario.ts'
import { signalProcess } from './servers/process-identity.ts'
import { monotonicUs } from './time.ts'

/** A round takes about a second; a mark that does not come within this never will. */
const MARK_MS_MAX = 30_000

type SetUp = Extract<ToWorker, { type: 'set-up' }>
type Task = Extract<ToWorker, { type: 'round' }>

class Worker {
  readonly #setUp: SetUp
  readonly #scenario: Scenario
  readonly #stores: Stores
  #marks = new Marks()

  constructor(setUp: SetUp, scenario: Scenario, stores: Stores) {
    this.#setUp = setUp
    this.#scenario = scenario
    this.#stores = stores
  }

  static async open(setUp: SetUp): Promise<Worker> {
    const { scenario } = (await import(setUp.module)) as { scenario: Scenario }
    if (scenario.fault.role === setUp.role) pauseKind(setUp.pauseKind).prepare()
    return new Worker(setUp, scenario, await scenario.open(setUp.addresses, setUp.role))
  }

  async run(task: Task): Promise<void> {
    const arm = this.#scenario.arms.find(({ name }) => name === task.id.arm)
    if (arm === undefined) throw new Error(`${this.#scenario.name} has no arm ${task.id.arm}`)
    this.#marks = new Marks()
    await arm.run(this.#round(task), this.#stores)
  }

  reach(mark: string): void {
    this.#marks.reach(mark)
  }

  close(): Promise<void> {
    return this.#stores.close()
  }

  #round({ id, place, jitterMs }: Task): Round {
    const { role } = this.#setUp
    const note = (op: string, calledAtUs: number, outcome: Outcome): void => {
      const answeredAtUs = monotonicUs()
      const { answer, value, basis, token, owner, tryNumber, detail } = outcome
      // Field by field: an outcome may carry objects that are no business of the history.
      const facts = { answer, value, basis, token, owner, tryNumber, detail }
      const times = { calledAtUs, answeredAtUs, wallMs: Date.now() }
      const entry = { ...id, process: role, pid: process.pid, op, ...times, ...facts }
      void tell({ type: 'entry', entry: entry as Entry })
    }
    const call = async <O extends Outcome>(op: string, act: () => Promise<O>): Promise<O> => {
      const calledAtUs = monotonicUs()
      try {
        const outcome = await act()
        note(op, calledAtUs, outcome)
        return outcome
      } catch (error) {
        note(op, calledAtUs, { answer: 'failed', detail: String(error) })
        throw error
      }
    }
    const { fault } = this.#scenario
    return {
      ...id,
      role,
      place,
      jitterMs,
      fault,
      note,
      call,
      mark: (mark) => void tell({ type: 'mark', mark: `${role}:${mark}` }),
      until: (mark) => this.#marks.until(mark),
      pause: async () => {
        const calledAtUs = monotonicUs()
        const kind = pauseKind(this.#setUp.pauseKind)
        // Asked for before the announcement: the answer may come at once.
        const goOn = kind.pauseFromOutside ? this.#marks.until('lab:go-on') : Promise.resolve()
        // Until it is written: a process that blocks itself right after sends nothing any more.
        await tell({ type: 'mark', mark: `${role}:pausing` })
        await kind.pause(fault.pauseMs, goOn)
        note('pause', calledAtUs, { answer: 'over' })
      },
    }
  }
}

/** What others have reached in this round; remembered, so that nobody can come too late. */
class Marks {
  readonly #reached = new Set<string>()
  readonly #waiting = new Map<string, () => void>()

  reach(mark: string): void {
    this.#reached.add(mark)
    this.#waiting.get(mark)?.()
  }

  until(mark: string): Promise<void> {
    if (this.#reached.has(mark)) return Promise.resolve()
    return new Promise((resolve, reject) => {
      const timer = setTimeout(
        () => reject(new Error(`waited ${MARK_MS_MAX} ms for ${mark}`)),
        MARK_MS_MAX,
      )
      this.#waiting.set(mark, () => {
        clearTimeout(timer)
        resolve()
      })
    })
  }
}

/** Resolves when it is written, or when there is nobody to write to any more. */
function tell(message: FromWorker): Promise<void> {
  return new Promise((resolve) => {
    if (process.send === undefined || !process.connected) resolve()
    else process.send(message, undefined, undefined, () => resolve())
  })
}

let worker: Worker | null = null
let siblings: readonly Sibling[] = []
let isEnding = false

async function obey(message: ToWorker): Promise<void> {
  switch (message.type) {
    case 'set-up':
      worker = await Worker.open(message)
      return tell({ type: 'ready' })
    case 'siblings':
      siblings = message.siblings
      return
    case 'round':
      await worker?.run(message)
      return tell({ type: 'done' })
    case 'mark':
      worker?.reach(message.mark)
      return
    case 'end':
      isEnding = true
      await worker?.close()
      process.disconnect()
      return
    default:
      message satisfies never
  }
}

process.on('message', (message: ToWorker) => {
  obey(message).catch((error: unknown) => {
    const text = error instanceof Error ? (error.stack ?? error.message) : String(error)
    void tell({ type: 'failed', error: text })
  })
})
process.on('disconnect', () => {
  if (!isEnding) {
    for (const { pid, startTicks } of siblings) signalProcess(pid, startTicks, 'SIGKILL')
  }
  process.exit()
})
// Ctrl-C on a terminal reaches every process there. The lab ends its workers itself, in order.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => {})
