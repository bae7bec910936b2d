/** What operators do with the nodes of a prefix, without any lock: what each of it begins with. */
import { scriptsOf } from '../../clients/redis.ts'
import { called } from '../../clients/redis-errors.ts'
import { InvalidArgumentError, OutcomeUnknownError } from '../../core/errors.ts'
import type { Seams } from '../../core/seams.ts'
import type { NodeAsker } from './admission-port.ts'
import type { NodeSettings } from './options.ts'

/** Asks as an operator does: one question after another, each for as long as it may take. */
export function askerOf(seams: Seams, { name, client, isDurable }: NodeSettings): NodeAsker {
  const scripts = scriptsOf(client)
  return {
    name,
    isDurable,
    ask: (script, keys, args, read, timeoutMs) =>
      new Promise((resolve, reject) => {
        const words = `${called(script.name)} on node "${name}" had no answer within ${timeoutMs} ms`
        const late = (): void => reject(new OutcomeUnknownError(words))
        const cancel = seams.after(timeoutMs, late, true)
        scripts.run(script, keys, args, read).then(resolve, reject).finally(cancel)
      }),
  }
}

export function pause(seams: Seams, delayMs: number): Promise<void> {
  return new Promise((resolve) => {
    seams.after(delayMs, resolve, true)
  })
}

/** Called with how long the command is about to wait, in milliseconds. */
export type OnWait = (waitMs: number) => void

export function readOnWait(given: unknown): OnWait {
  if (given === undefined) return () => undefined
  if (typeof given === 'function') return given as OnWait
  throw new InvalidArgumentError('onWait', given, 'a function')
}
