/**
 * Undoes in the background what may have happened in a store: attempts without an answer, and
 * releases that nobody confirmed.
 *
 * Guarantee: each job is tried until the store confirms it or its time is over, with delays that
 * double from 50 ms to 2 s; nothing here rejects or keeps the process running. Nothing depends on it
 * for safety: an entry that could not be undone ends with its TTL.
 */
import type { LockError } from '../core/errors.ts'
import { OutcomeUnknownError } from '../core/errors.ts'
import { requestTimeoutMsMax } from '../core/validity.ts'
import type { Context } from './context.ts'
import { bounded } from './request.ts'

const RETRY_MS_FIRST = 50
const RETRY_MS_MAX = 2000
/** A stray request may still arrive this long after it was given up: the tombstone's own life. */
const CANCEL_FOR_MS_MIN = 30_000
/** Jobs beyond this are tried once: a dead store must not fill our memory. */
const RETRIED_JOBS_MAX = 10_000

type Job = Readonly<{ run: () => Promise<unknown>; untilMs: number; done?: () => void }>

export class Undo {
  readonly #context: () => Context
  /** Jobs of ours, and with them the work that is followed. */
  #jobs = 0
  #pending = 0
  #idle: (() => void)[] = []
  #stopped = false

  /** @param context A function, because the context and its parts know each other. */
  constructor(context: () => Context) {
    this.#context = context
  }

  /** Sees to it that `owner` neither holds `lockName` nor ever will. */
  cancel(lockName: string, owner: string, ttlMs: number): void {
    const { backend, emitter, seams, waits } = this.#context()
    this.#start({
      run: () => backend.cancel(lockName, owner),
      untilMs: seams.nowMs() + Math.max(2 * ttlMs, CANCEL_FOR_MS_MIN),
      done: () => {
        emitter.emit('cancelled', { lockName })
        waits.undone(lockName)
      },
    })
  }

  /** Goes on trying `run` until `untilMs` on the monotonic clock. */
  keepTrying(run: () => Promise<unknown>, untilMs: number): void {
    this.#start({ run, untilMs })
  }

  /** Counts work that is going on elsewhere: `settled` waits for it too. */
  follow<T>(work: Promise<T>): Promise<T> {
    this.#pending += 1
    const end = (): void => this.#end()
    work.then(end, end)
    return work
  }

  /** Resolves when nothing is pending. */
  settled(): Promise<void> {
    if (this.#pending === 0) return Promise.resolve()
    return new Promise((resolve) => this.#idle.push(resolve))
  }

  /** No further try is made; one in flight is left to itself. */
  stop(): void {
    this.#stopped = true
  }

  #start(job: Job): void {
    const retries = this.#jobs < RETRIED_JOBS_MAX
    this.#jobs += 1
    this.#pending += 1
    this.#try(job, retries, RETRY_MS_FIRST)
  }

  #try(job: Job, retries: boolean, delayMs: number): void {
    const { agenda, seams } = this.#context()
    bounded(this.#context(), {
      timeoutMs: requestTimeoutMsMax,
      ask: job.run,
      onTimeout: noAnswer,
      background: true,
    }).then(
      () => {
        job.done?.()
        this.#endJob()
      },
      () => {
        const nextMs = seams.nowMs() + delayMs
        if (this.#stopped || !retries || nextMs > job.untilMs) return this.#endJob()
        try {
          agenda.add(nextMs, () => {
            if (this.#stopped) return this.#endJob()
            this.#try(job, retries, Math.min(2 * delayMs, RETRY_MS_MAX))
          })
        } catch {
          // A caller's clock threw, and nobody is left to be told.
          this.#endJob()
        }
      },
    )
  }

  #endJob(): void {
    this.#jobs -= 1
    this.#end()
  }

  #end(): void {
    this.#pending -= 1
    if (this.#pending > 0) return
    const idle = this.#idle
    this.#idle = []
    for (const resolve of idle) resolve()
  }
}

function noAnswer(): LockError {
  return new OutcomeUnknownError(`no answer within ${requestTimeoutMsMax} ms`)
}
