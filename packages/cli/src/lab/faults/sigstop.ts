import { setTimeout as sleep } from 'node:timers/promises'
import { LANES_MAX, type PauseKind } from './pause-kind.ts'

/**
 * SIGSTOP and SIGCONT from outside: what a virtual machine's migration, an overcommitted host or a
 * debugger does to a process. Nothing in it runs, no timer, no signal handler.
 *
 * The process announces its pause and then waits to be told to go on. Without that it would go on
 * working between its announcement and the signal. The word is sent just before SIGCONT, so it lies
 * in the process's pipe when it wakes.
 */
export const sigstop: PauseKind = {
  name: 'sigstop',
  description: 'the process is stopped and continued by signals',
  execArgv: [],
  lanesMax: () => LANES_MAX,
  prepare: () => {},
  pause: (_pauseMs, goOn) => goOn,
  pauseFromOutside: async (target, pauseMs) => {
    await target.freeze()
    await sleep(pauseMs)
    target.sayGoOn()
    target.thaw()
  },
}
