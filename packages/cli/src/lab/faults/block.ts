import { LANES_MAX, type PauseKind } from './pause-kind.ts'

/** The event loop is blocked, as by a synchronous call to a slow disk. No timer fires meanwhile. */
export const block: PauseKind = {
  name: 'block',
  description: 'the event loop is blocked by a synchronous wait',
  execArgv: [],
  lanesMax: () => LANES_MAX,
  prepare: () => {},
  pause: async (pauseMs) => {
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, pauseMs)
  },
}
