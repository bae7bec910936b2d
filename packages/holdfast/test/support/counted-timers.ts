/** Node's timers on a clock that a test moves, with a look at those that keep the process running. */
import { vi } from 'vitest'

export interface CountedTimers {
  /** Timers that are armed; `kept` of them hold the process. */
  armed(): number
  kept(): number
  restore(): void
}

/** Until `restore()`, `setTimeout` and `Date.now()` stand still but for `vi.advanceTimersByTime`. */
export function countTimers(): CountedTimers {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'Date'] })
  const armed = new Set<NodeJS.Timeout>()
  const arm = globalThis.setTimeout
  const clear = globalThis.clearTimeout
  vi.stubGlobal('setTimeout', (run: () => void, delayMs: number) => {
    const timer: NodeJS.Timeout = arm(() => {
      armed.delete(timer)
      run()
    }, delayMs)
    armed.add(timer)
    return timer
  })
  vi.stubGlobal('clearTimeout', (timer: NodeJS.Timeout) => {
    armed.delete(timer)
    clear(timer)
  })
  return {
    armed: () => armed.size,
    kept: () => [...armed].filter((timer) => timer.hasRef()).length,
    restore() {
      vi.unstubAllGlobals()
      vi.useRealTimers()
    },
  }
}
