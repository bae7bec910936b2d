/** What a worker does in a scenario of rounds: the program of one role, in one lane. */
import { pauseKind } from './faults/index.ts'
import { Marks } from './marks.ts'
import type { SetUpRounds, ToRoundWorker } from './messages.ts'
import { Notes } from './notes.ts'
import type { Round, Scenario, Stores } from './scenario.ts'
import { tell } from './tell.ts'
import { monotonicUs } from './time.ts'

/** A round takes about a second; a mark that does not come within this never will. */
const MARK_MS_MAX = 30_000

type Task = Extract<ToRoundWorker, { type: 'round' }>

export class RoundWorker {
  readonly #setUp: SetUpRounds
  readonly #scenario: Scenario
  readonly #stores: Stores
  readonly #notes: Notes
  #marks = new Marks(MARK_MS_MAX)

  private constructor(setUp: SetUpRounds, scenario: Scenario, stores: Stores) {
    this.#setUp = setUp
    this.#scenario = scenario
    this.#stores = stores
    this.#notes = new Notes(setUp.role, (entry) => void tell({ type: 'entries', entries: [entry] }))
  }

  static async open(setUp: SetUpRounds): Promise<RoundWorker> {
    const { scenario } = (await import(setUp.module)) as { scenario: Scenario }
    if (scenario.fault.role === setUp.role) pauseKind(setUp.pauseKind).prepare()
    return new RoundWorker(setUp, scenario, await scenario.open(setUp.addresses, setUp.role))
  }

  /** One round, from its start to its end; or a mark that another role has reached. */
  async obey(message: ToRoundWorker): Promise<void> {
    if (message.type === 'mark') {
      this.#marks.reach(message.mark)
      return
    }
    const arm = this.#scenario.arms.find(({ name }) => name === message.id.arm)
    if (arm === undefined) throw new Error(`${this.#scenario.name} has no arm ${message.id.arm}`)
    this.#marks = new Marks(MARK_MS_MAX)
    await arm.run(this.#round(message), this.#stores)
    await tell({ type: 'done' })
  }

  close(): Promise<void> {
    return this.#stores.close()
  }

  #round({ id, place, jitterMs }: Task): Round {
    const { role } = this.#setUp
    const { fault } = this.#scenario
    const notes = this.#notes
    return {
      ...id,
      role,
      place,
      jitterMs,
      fault,
      note: (op, calledAtUs, outcome) => notes.note(id, op, calledAtUs, outcome),
      call: (op, act) => notes.call(id, op, act),
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
        notes.note(id, 'pause', calledAtUs, { answer: 'over' })
      },
    }
  }
}
