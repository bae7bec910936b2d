/**
 * How locks are closed: everybody is told, everything is released or undone, in bounded time.
 *
 * The order matters. Contenders leave first, so that a released name is not passed on to one of
 * them; the backend ends last, because every release and every undo goes through it, and only with
 * the last engine that uses it.
 */
import { ClosedError } from '../core/errors.ts'
import { started } from '../core/started.ts'
import type { Context } from './context.ts'
import { leave } from './shared.ts'

/** What has not been confirmed by then ends with its TTL. */
const CLOSE_MS_MAX = 5000

/** Call once, with `context.isClosed` true already. Rejects only if the backend's close does. */
export async function shutDown(context: Context): Promise<void> {
  const { waits, turns, attempts, leases, undo, seams, backend, emitter } = context
  waits.close(() => new ClosedError())
  turns.close(() => new ClosedError())
  for (const attempt of attempts) attempt.abandon(new ClosedError())
  for (const lease of [...leases]) {
    lease.lose('session-ended')
    void lease[Symbol.asyncDispose]()
  }
  let cancel = (): void => {}
  const bound = new Promise<void>((resolve) => {
    cancel = seams.after(CLOSE_MS_MAX, resolve, true)
  })
  await Promise.race([undo.settled(), bound])
  undo.stop()
  try {
    if (leave(backend, emitter)) await Promise.race([started(() => backend.close()), bound])
  } finally {
    cancel()
  }
}
