import { setTimeout as sleep } from 'node:timers/promises'
import { LANES_MAX, type PauseKind } from './pause-kind.ts'

/** The work awaits something slow. Timers and signals run, so a holder is told of its loss in time. */
export const sleepPause: PauseKind = {
  name: 'sleep',
  description: 'the work awaits a timer; the rest of the process runs',
  execArgv: [],
  lanesMax: () => LANES_MAX,
  prepare: () => {},
  pause: (pauseMs) => sleep(pauseMs),
}
