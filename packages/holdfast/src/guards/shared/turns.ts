/**
 * One guarded call of a key at a time, in this process, first in, first out.
 *
 * In PostgreSQL a key is a lease on a resource. Two at once would be safe, since the row's lock orders
 * them, but after a lost answer to COMMIT the row must still show whether it was ours: a later call of
 * the same lease overwrites that. In SQLite it is a connection, which has one transaction at a time.
 */
import { AsyncLocalStorage } from 'node:async_hooks'
import {
  BackendUnavailableError,
  GuardBusyError,
  ReentrantAcquireError,
} from '../../core/errors.ts'
import type { Seams } from '../../core/seams.ts'
import type { Bound } from './bound.ts'

/** More waiting calls than this mean that they are asked for faster than they can run. */
const WAITING_MAX = 1000

/** One that runs, or has run: what it left behind keeps its context for ever. */
interface Running {
  readonly turns: Turns
  readonly key: string
  /** What only one call has at a time, wherever it was asked for. */
  readonly place: string | null
  hasEnded: boolean
}

/** The guarded calls that enclose the running one. */
const chain = new AsyncLocalStorage<readonly Running[]>()

export class Turns {
  readonly #seams: Seams
  readonly #whose: string
  /** A key is present while a call runs; its list holds who waits. */
  readonly #waiting = new Map<string, Set<() => void>>()

  /** @param whose For messages: what two calls of one key have in common. */
  constructor(seams: Seams, whose = 'of the same lease') {
    this.#seams = seams
    this.#whose = whose
  }

  /**
   * @param place What only one call has at a time, in whatever turns: that of a file that is written.
   * @throws ReentrantAcquireError inside a call of the same key or place: it would wait for itself.
   */
  async run<T>(
    key: string,
    resource: string,
    bound: Bound,
    call: () => Promise<T>,
    place: string | null = null,
  ): Promise<T> {
    // What an enclosing call left running after it ended waits for others, not for itself.
    const around = (chain.getStore() ?? []).filter(({ hasEnded }) => !hasEnded)
    const isSame = (outer: Running): boolean =>
      (outer.turns === this && outer.key === key) || (place !== null && outer.place === place)
    if (around.some(isSame)) {
      throw new ReentrantAcquireError(
        resource,
        `a guarded call for "${resource}" runs inside another one ${this.#whose}: it would wait for itself`,
      )
    }
    const turn = this.#turn(key, resource, bound)
    if (turn !== undefined) await turn
    const running: Running = { turns: this, key, place, hasEnded: false }
    try {
      return await chain.run([...around, running], call)
    } finally {
      running.hasEnded = true
      this.#pass(key)
    }
  }

  #turn(key: string, resource: string, bound: Bound): Promise<void> | undefined {
    const waiting = this.#waiting.get(key)
    if (waiting === undefined) {
      this.#waiting.set(key, new Set())
      return undefined
    }
    if (waiting.size >= WAITING_MAX) {
      const what = `${WAITING_MAX} guarded calls ${this.#whose} wait for "${resource}"`
      throw new BackendUnavailableError('backlog', what)
    }
    return new Promise((resolve, reject) => {
      const { signal } = bound
      const stop = (): void => {
        cancelTimer()
        signal?.removeEventListener('abort', look)
        waiting.delete(start)
      }
      const start = (): void => {
        stop()
        resolve()
      }
      /** A lease that was renewed waits on; an election's term may drain after its signal. */
      const look = (): void => {
        cancelTimer()
        const restMs = bound.remainingMs()
        if (restMs > 0) {
          cancelTimer = this.#seams.after(restMs, look, true)
          return
        }
        stop()
        const earlier = `an earlier guarded call ${this.#whose} has not ended`
        reject(bound.loss()?.error ?? new GuardBusyError(resource, earlier))
      }
      let cancelTimer = this.#seams.after(bound.remainingMs(), look, true)
      signal?.addEventListener('abort', look)
      waiting.add(start)
    })
  }

  #pass(key: string): void {
    const waiting = this.#waiting.get(key)
    const [next] = waiting ?? []
    if (next === undefined) this.#waiting.delete(key)
    else next()
  }
}
