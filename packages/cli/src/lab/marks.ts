/** What others have reached; remembered, so that nobody can come too late. */
export class Marks {
  readonly #waitMsMax: number
  readonly #reached = new Set<string>()
  readonly #waiting = new Set<Waiting>()
  #end: Error | null = null

  /** @param waitMsMax A mark that does not come within this never will. */
  constructor(waitMsMax: number) {
    this.#waitMsMax = waitMsMax
  }

  reach(mark: string): void {
    this.#reached.add(mark)
    for (const waiting of this.#waiting) if (waiting.mark === mark) waiting.settle(null)
  }

  has(mark: string): boolean {
    return this.#reached.has(mark)
  }

  /** Rejects when it does not come in time, or when nobody is left who could reach it. */
  until(mark: string): Promise<void> {
    if (this.#reached.has(mark)) return Promise.resolve()
    if (this.#end !== null) return Promise.reject(this.#end)
    return new Promise((resolve, reject) => {
      const late = new Error(`waited ${this.#waitMsMax} ms for ${mark}`)
      const timer = setTimeout(() => waiting.settle(late), this.#waitMsMax)
      const settle = (error: Error | null): void => {
        clearTimeout(timer)
        this.#waiting.delete(waiting)
        if (error === null) resolve()
        else reject(error)
      }
      const waiting: Waiting = { mark, settle }
      this.#waiting.add(waiting)
    })
  }

  /** Nobody will reach anything any more: who waits is told, and who asks later too. */
  end(error: Error): void {
    this.#end = error
    for (const waiting of this.#waiting) waiting.settle(error)
  }
}

interface Waiting {
  readonly mark: string
  settle(error: Error | null): void
}
