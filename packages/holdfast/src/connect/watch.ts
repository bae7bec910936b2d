/** Listens to a connection for as long as it is ours, and tells by warnings what is wrong with it. */
import type { Backend } from '../core/backend.ts'
import { reasonOf } from './failure.ts'
import type { Connection } from './redis.ts'
import type { ConnectionTarget } from './redis-target.ts'

export class Watch {
  readonly #target: ConnectionTarget
  #onError: (error: unknown) => void
  /** What was warned of since the connection was last sound: a driver repeats itself at each try. */
  readonly #told = new Set<string>()

  /** @param onError Hears of errors until there is a backend that warns of them. */
  constructor(target: ConnectionTarget, onError: (error: unknown) => void) {
    this.#target = target
    this.#onError = onError
  }

  readonly onError = (error: unknown): void => this.#onError(error)
  readonly onReady = (): void => this.#told.clear()

  warnThrough(backend: Backend): void {
    this.#onError = (error) => {
      const { words } = reasonOf(error)
      if (this.#told.has(words)) return
      this.#told.add(words)
      const { place, isNode } = this.#target
      const meanwhile = isNode ? 'it has no vote meanwhile' : 'calls are refused meanwhile'
      const advice = `look at the connection to ${place}: ${words}; it is made again by itself, and ${meanwhile}`
      backend.warn?.({ code: 'connection', advice })
    }
  }

  /** The listeners stay: what a driver says while it ends must not end the process either. */
  end(connection: Connection): void {
    this.#onError = () => undefined
    connection.end()
  }
}
