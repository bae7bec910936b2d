/** One attempt for a caller who stands in no line. */
import type { Settings } from '../core/options.ts'
import { onAbort } from './aborts.ts'
import { type Answer, Attempt } from './attempt.ts'
import type { Context } from './context.ts'

/** Rejects as the attempt fails, or at once with the reason of an aborted signal. */
export function askOnce(context: Context, lockName: string, settings: Settings): Promise<Answer> {
  const { seams, emitter, attempts } = context
  const startedAtMs = seams.nowMs()
  const { signal } = settings
  return new Promise((resolve, reject) => {
    const end = (): void => {
      attempts.delete(attempt)
      unlisten?.()
    }
    const caller = { waits: false, startedAtMs }
    const attempt = new Attempt(context, lockName, settings, caller, {
      answered: (answer) => {
        end()
        resolve(answer)
        if (answer.kind === 'granted') return
        try {
          emitter.emit('refused', { lockName, waitedMs: seams.nowMs() - startedAtMs })
        } catch {
          // A caller's clock threw, and the caller has its answer.
        }
      },
      failed: (error) => {
        end()
        reject(error)
      },
    })
    attempts.add(attempt)
    const unlisten = signal && onAbort(signal, () => attempt.abandon(signal.reason))
  })
}
