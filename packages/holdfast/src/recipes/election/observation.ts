/** Who leads, told whenever it has changed since the last time. */
import { onAbort } from '../../lock/aborts.ts'
import type { Leadership } from './contract.ts'
import type { Round } from './rounds.ts'
import type { Sight } from './sight.ts'

export class Observation implements Round<Leadership | null> {
  readonly #sight: Sight
  readonly #signal: AbortSignal | undefined
  /** Undefined: nothing was told yet. */
  #told: Leadership | null | undefined

  constructor(sight: Sight, signal: AbortSignal | undefined) {
    this.#sight = sight
    this.#signal = signal
  }

  async next(ended: AbortSignal): Promise<{ readonly value: Leadership | null } | null> {
    const stop = new AbortController()
    const unlisten = [ended, this.#signal].map(
      (signal) => signal && onAbort(signal, () => stop.abort(signal.reason)),
    )
    try {
      const look = await this.#sight.news((seen) => !isSame(seen, this.#told), stop.signal)
      if (look === null) return null
      this.#told = look.leadership
      return { value: look.leadership }
    } finally {
      for (const end of unlisten) end?.()
    }
  }

  async end(): Promise<void> {}
}

function isSame(seen: Leadership | null, told: Leadership | null | undefined): boolean {
  if (seen === null || told === null || told === undefined) return seen === told
  return seen.fencingToken === told.fencingToken && seen.value === told.value
}
