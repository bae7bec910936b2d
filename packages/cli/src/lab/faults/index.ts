import { block } from './block.ts'
import { gcPause } from './gc.ts'
import type { PauseKind } from './pause-kind.ts'
import { sigstop } from './sigstop.ts'
import { sleepPause } from './sleep.ts'

export { LANES_DEFAULT, LANES_MAX, type Pausable, type PauseKind } from './pause-kind.ts'

/** The first one is the default. */
export const PAUSE_KINDS: readonly PauseKind[] = [sigstop, sleepPause, gcPause, block]

/** @throws for a name that is none: whoever passes it on has checked it. */
export function pauseKind(name: string): PauseKind {
  const kind = PAUSE_KINDS.find((candidate) => candidate.name === name)
  if (kind === undefined) throw new Error(`no pause is called ${name}`)
  return kind
}
