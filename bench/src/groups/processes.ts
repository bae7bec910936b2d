/**
 * A process with sixteen contenders beside two with one each, all on one name.
 *
 * A lock that is handed on inside its process costs one request a section, and would starve everybody
 * else if it were handed on there for ever. The three processes serve all contestants in turn.
 */
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import type { Crowd, Section } from '../contend.ts'
import type { Contestant } from '../contestant.ts'
import type { Entry } from '../measure.ts'
import { arenaEntry, contendersEntry, isReference } from './contenders.ts'
import type { RedisBed } from './redis-bed.ts'

export const CROWDS = [16, 1, 1] as const
const CHILD = fileURLToPath(new URL('../contender-process.js', import.meta.url))
/** An answer comes after the slice and the longest wait in it. Milliseconds. */
const ANSWER_MS_MAX = 60_000

export type Order =
  | { readonly open: string; readonly who: string; readonly client: string; readonly port: number }
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

  constructor() {
    let workers = 0
    this.#processes = CROWDS.map((count) => {
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
    const { who, client } = contestant
    const place = `${who} on ${client}`
    await this.#all(() => ({ open: place, who, client, port: bed.port }))
    return arenaEntry(contestant, sliceMs, bed, {
      workers: this.#workers,
      contend: (endMs, turn) =>
        this.#all(({ workers, firstWorker }) => ({
          contend: place,
          crowd: { workers, firstWorker, endMs, turn },
        })),
      close: async () => {
        await this.#all(() => ({ close: place }))
      },
    })
  }

  async #all(order: (process: ContenderProcess) => Order): Promise<Section[]> {
    return (await Promise.all(this.#processes.map((one) => one.ask(order(one))))).flat()
  }
}
