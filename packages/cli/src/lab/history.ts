/**
 * What happened, as those who did it wrote it down: the only thing besides the stores themselves
 * that a checker gets to see.
 */
import { appendFileSync, closeSync, openSync } from 'node:fs'

/** What an operation came to, in the words of whoever did it. */
export interface Outcome {
  /** One word; the scenario's checker knows which ones there are. */
  readonly answer: string
  /** A value read, or the value that was to be written. */
  readonly value?: number
  /** The value that a write was computed from. */
  readonly basis?: number
  /** A fencing token, decimal digits. */
  readonly token?: string
  readonly owner?: string
  /** 1 for the first try of a round's work, more when it had to be done again. */
  readonly tryNumber?: number
  /** Anything else that helps a reader: an error's message, what a key holds. */
  readonly detail?: string
}

/** Which performance of which round an entry belongs to. */
export interface DrawId {
  readonly arm: string
  readonly lane: number
  readonly round: number
  /** 0, and one more each time the round had to be drawn again. */
  readonly draw: number
}

/** One finished operation of one process. */
export interface Entry extends DrawId, Outcome {
  /** The role of the process: `A`, `B`, `C`; `lab` for the lab itself. */
  readonly process: string
  readonly pid: number
  readonly op: string
  /** Before it was sent and after it was answered; one clock for all processes, see time.ts. */
  readonly calledAtUs: number
  readonly answeredAtUs: number
  /** Wall clock at the answer, milliseconds since 1970: for people, never compared. */
  readonly wallMs: number
}

/** Keeps all entries in memory; writes them to a file as well, one JSON text a line, if asked to. */
export class History {
  readonly #entries: Entry[] = []
  readonly #file: number | null

  /** @throws when the file cannot be written. */
  constructor(path: string | null) {
    this.#file = path === null ? null : openSync(path, 'w')
  }

  add(entries: readonly Entry[]): void {
    for (const entry of entries) this.#entries.push(entry)
    this.writeLines(entries.map((entry) => ({ entry })))
  }

  of(arm: string): readonly Entry[] {
    return this.#entries.filter((entry) => entry.arm === arm)
  }

  /** The next scenario's entries are its own; the file goes on. */
  forget(): void {
    this.#entries.length = 0
  }

  /** Lines that are no entries: what was run, what the stores held in the end. */
  writeLines(lines: readonly object[]): void {
    if (this.#file === null || lines.length === 0) return
    appendFileSync(this.#file, lines.map((line) => `${JSON.stringify(line)}\n`).join(''))
  }

  close(): void {
    if (this.#file !== null) closeSync(this.#file)
  }
}
