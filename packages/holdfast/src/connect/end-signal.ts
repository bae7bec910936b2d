/**
 * A signal for sockets that are not open yet. Node leaves a listener or two on it for every socket that it
 * was ever given to: a server that is away for a day would cost tens of thousands, and a warning.
 */
import { setMaxListeners } from 'node:events'
import { systemSeams } from '../core/seams.ts'
import { CONNECT_ATTEMPT_MS } from './redis-settings.ts'

/** A socket that was made so long ago is open, and ended as such, or was given up. */
const OLD_MS = 2 * CONNECT_ATTEMPT_MS

type Add = AbortSignal['addEventListener']

/** @param nowMs For tests. */
export function endSignal(nowMs: () => number = systemSeams.nowMs): AbortController {
  const ending = new AbortController()
  const { signal } = ending
  const add = signal.addEventListener.bind(signal) as Add
  const kept = new Map<Parameters<Add>[1], number>()
  setMaxListeners(0, signal)
  signal.addEventListener = ((type, listener, options) => {
    for (const [older, addedAtMs] of kept) {
      if (nowMs() - addedAtMs < OLD_MS) break
      signal.removeEventListener('abort', older)
      kept.delete(older)
    }
    kept.set(listener, nowMs())
    add(type, listener, options)
  }) as Add
  return ending
}
