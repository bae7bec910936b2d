/**
 * Contenders of several processes on one name; the processes serve all contestants in turn.
 *
 * On Redis it is a process with sixteen beside two with one each: a lock that is handed on inside its
 * process costs one request a section, and would starve everybody else if it were handed on there for
 * ever. In a file it is eight with one each, for nothing but the file tells them of each other.
 */
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import type { Crowd, Section } from '../contend.ts'
import type { Contestant, Label } from '../contestant.ts'
import type { Entry } from '../measure.ts'
import { type Arena, arenaEntry, contendersEntry, isReference } from './contenders.ts'
import type { RedisBed } from './redis-bed.ts'

/** Contenders of each process. */
export const CROWDS = [16, 1, 1] as const
export const CROWDS_OF_FILES = [1, 1, 1, 1, 1, 1, 1, 1] as const
const CHILD = fileURLToPath(new URL('../contender-process.js', import.meta.url))
/** An answer comes after the slice and the longest wait in it. Milliseconds. */
const ANSWER_MS_MAX = 60_000

export type Order =
  | { readonly open: string; readonly label: Label; readonly at: number | string }
  | { readonly contend: string; readonly crowd: Crowd }
  | { readonly close: string }

export type Answer = { readonly sections: readonly Section[] } | { readonly failed: string }

class ContenderProcess {
  readonly #child = fork(CHILD, { stdio: ['ignore', 'ignore', 'inherit', 'ipc'] })
  readonly #ended: Promise<never>
  readonly workers: number
  readonly firstWorker: number

  constructor(workers: number, firstWorker: number) {
    this.workers = workers
    this.firstWorker = firstWorker
    this.#ended = once(this.#child, 'exit').then(() => {
      throw new Error('a process of contenders ended')
    })
    // Heard by whoever asks next; in the end it is meant to end.
    this.#ended.catch(() => undefined)
  }

  /** One order at a time. @throws what went wrong there. */
  async ask(order: Order): Promise<readonly Section[]> {
    const signal = AbortSignal.timeout(ANSWER_MS_MAX)
    const answered = once(this.#child, 'message', { signal })
    // When the process ends instead, the time-out is met by nobody.
    answered.catch(() => undefined)
    this.#child.send(order)
    const [answer] = (await Promise.race([answered, this.#ended])) as [Answer]
    if ('failed' in answer) throw new Error(answer.failed)
    return answer.sections
  }

  end(): void {
    this.#child.kill('SIGKILL')
  }
}

export class ContenderProcesses {
  readonly #processes: readonly ContenderProcess[]
  readonly #workers: number

  constructor(crowds: readonly number[]) {
    let workers = 0
    this.#processes = crowds.map((count) => {
      workers += count
      return new ContenderProcess(count, workers - count)
    })
    this.#workers = workers
  }

  end(): void {
    for (const one of this.#processes) one.end()
  }

  async entry(contestant: Contestant, sliceMs: number, bed: RedisBed): Promise<Entry> {
    if (isReference(contestant)) return contendersEntry(contestant, sliceMs, bed)
    return arenaEntry(contestant, sliceMs, bed, await this.arena(contestant, bed.port))
  }

  /** @param at The port or the folder. */
  async arena({ who, variant, client }: Label, at: number | string): Promise<Arena> {
    const place = [who, variant, client].join(', ')
    await this.#all(() => ({ open: place, label: { who, variant, client }, at }))
    return {
      workers: this.#workers,
      contend: (endMs, turn) =>
        this.#all(({ workers, firstWorker }) => ({
          contend: place,
          crowd: { workers, firstWorker, endMs, turn },
        })),
      close: async () => {
        await this.#all(() => ({ close: place }))
      },
    }
  }

  /** Waits for all of them, also when one has failed: an answer left behind would be taken for the next. */
  async #all(order: (process: ContenderProcess) => Order): Promise<Section[]> {
    const asked = this.#processes.map((one) => one.ask(order(one)))
    await Promise.allSettled(asked)
    return (await Promise.all(asked)).flat()
  }
}
