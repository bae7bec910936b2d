/** What a worker does in a trial: the programs of its scenario, one after another. */
import type { Entry } from './history.ts'
import { Marks } from './marks.ts'
import type { SetUpTrial, ToTrialWorker } from './messages.ts'
import { Notes } from './notes.ts'
import { tell } from './tell.ts'
import type { TrialScenario } from './trial.ts'

/** Longer than any step of a trial takes on a busy machine. */
const MARK_MS_MAX = 60_000
/** Entries are sent together: one message each would be half of the work of a short section. */
const ENTRIES_AT_ONCE = 50

export class TrialWorker {
  readonly #role: string
  readonly #scenario: TrialScenario
  readonly #notes: Notes
  #entries: Entry[] = []
  #marks = new Marks(MARK_MS_MAX)

  private constructor(role: string, scenario: TrialScenario) {
    this.#role = role
    this.#scenario = scenario
    this.#notes = new Notes(role, (entry) => {
      this.#entries.push(entry)
      if (this.#entries.length >= ENTRIES_AT_ONCE) void this.#sendEntries()
    })
  }

  static async open({ module, role }: SetUpTrial): Promise<TrialWorker> {
    const { scenario } = (await import(module)) as { scenario: TrialScenario }
    return new TrialWorker(role, scenario)
  }

  /** One job, from its start to its end; or a mark that the lab has set. */
  async obey(message: ToTrialWorker): Promise<void> {
    if (message.type === 'mark') {
      this.#marks.reach(message.mark)
      return
    }
    const { id, program, input } = message
    const run = this.#scenario.programs[program]
    if (run === undefined) throw new Error(`${this.#scenario.name} has no program ${program}`)
    this.#marks = new Marks(MARK_MS_MAX)
    const notes = this.#notes
    const result = await this.#finish(
      run({
        arm: id.arm,
        round: id.round,
        role: this.#role,
        input,
        note: (op, calledAtUs, outcome, round = id.round) =>
          notes.note({ ...id, round }, op, calledAtUs, outcome),
        call: (op, act) => notes.call(id, op, act),
        mark: async (mark) => {
          await this.#sendEntries()
          await tell({ type: 'mark', mark })
        },
        until: (mark) => this.#marks.until(mark),
        hasReached: (mark) => this.#marks.has(mark),
      }),
    )
    await tell({ type: 'done', result })
  }

  /** Its programs close what they open. */
  close(): Promise<void> {
    return this.#sendEntries()
  }

  /** What a program wrote down before it failed is what tells why. */
  async #finish(work: Promise<unknown>): Promise<unknown> {
    try {
      return await work
    } finally {
      await this.#sendEntries()
    }
  }

  #sendEntries(): Promise<void> {
    const entries = this.#entries
    this.#entries = []
    return entries.length === 0 ? Promise.resolve() : tell({ type: 'entries', entries })
  }
}
