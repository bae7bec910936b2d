/** A worker's side of the pipe to the lab. */
import type { FromWorker } from './messages.ts'

/** Resolves when it is written, or when there is nobody to write to any more. */
export function tell(message: FromWorker): Promise<void> {
  return new Promise((resolve) => {
    if (process.send === undefined || !process.connected) resolve()
    else process.send(message, undefined, undefined, () => resolve())
  })
}
