/** How one process writes down what it does. */
import type { DrawId, Entry, Outcome } from './history.ts'
import { monotonicUs } from './time.ts'

export class Notes {
  readonly #process: string
  readonly #deliver: (entry: Entry) => void

  /** @param process Its role; `lab` for the lab itself. */
  constructor(process: string, deliver: (entry: Entry) => void) {
    this.#process = process
    this.#deliver = deliver
  }

  /** An operation that began at `calledAtUs` and is over now. */
  note(id: DrawId, op: string, calledAtUs: number, outcome: Outcome): void {
    const answeredAtUs = monotonicUs()
    const { answer, value, basis, token, owner, tryNumber, detail } = outcome
    // Field by field: an outcome may carry objects that are no business of the history.
    const facts = { answer, value, basis, token, owner, tryNumber, detail }
    const times = { calledAtUs, answeredAtUs, wallMs: Date.now() }
    const entry = { ...id, process: this.#process, pid: process.pid, op, ...times, ...facts }
    this.#deliver(entry as Entry)
  }

  /** Does something and writes it down, also when it fails. */
  async call<O extends Outcome>(id: DrawId, op: string, act: () => Promise<O>): Promise<O> {
    const calledAtUs = monotonicUs()
    try {
      const outcome = await act()
      this.note(id, op, calledAtUs, outcome)
      return outcome
    } catch (error) {
      this.note(id, op, calledAtUs, { answer: 'failed', detail: String(error) })
      throw error
    }
  }
}
