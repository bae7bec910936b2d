/**
 * An async iterator for a loop that waits long: `return()` is heard while `next()` still waits, where a
 * generator's would stand behind it for ever.
 *
 * Guarantees: calls of `next` are answered one after the other; after the end, an error included, every
 * call says that it is over; `return` settles when what is under way has been ended.
 */

export interface Round<T> {
  /**
   * The next value; null: there is none any more.
   *
   * @param signal Aborts when the loop is ended from outside: then whatever waits must give up.
   */
  next(signal: AbortSignal): Promise<{ readonly value: T } | null>
  /** Called at the end, once or more often: gives back what the last value stands for. Never rejects. */
  end(): Promise<void>
}

type Result<T> = IteratorResult<T, undefined>

const OVER = { done: true, value: undefined } as const

export class Rounds<T> implements AsyncIterator<T, undefined> {
  readonly #round: Round<T>
  readonly #stop = new AbortController()
  #last: Promise<unknown> = Promise.resolve()

  constructor(round: Round<T>) {
    this.#round = round
  }

  next(): Promise<Result<T>> {
    const result = this.#last.then(() => this.#advance())
    // The caller of this round hears of it; the next one says that it is over.
    this.#last = result.catch(() => {})
    return result
  }

  async return(): Promise<Result<T>> {
    this.#stop.abort()
    await this.#round.end()
    await this.#last
    return OVER
  }

  async #advance(): Promise<Result<T>> {
    const { signal } = this.#stop
    if (signal.aborted) return OVER
    try {
      const next = await this.#round.next(signal)
      if (next !== null) return { done: false, value: next.value }
    } catch (error) {
      this.#stop.abort()
      throw error
    }
    this.#stop.abort()
    return OVER
  }
}
