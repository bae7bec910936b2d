/** A way to make one process stand still while the rest of the world goes on. */
export interface PauseKind {
  readonly name: string
  /** For `--help`. */
  readonly description: string
  /** Node options of the process that is going to pause. */
  readonly execArgv: readonly string[]
  /** How many processes may pause like this at once on a machine with that many cores. */
  lanesMax(coreCount: number): number
  /** In the process that is going to pause, once, before its first round. */
  prepare(): void
  /**
   * In the process itself: comes back when the pause is over.
   *
   * @param goOn Resolves when the lab has said that the pause is over; it only says so if it also
   *   does the pausing.
   */
  pause(pauseMs: number, goOn: Promise<void>): Promise<void>
  /** In the lab: pauses the process from outside. Absent where the process does it itself. */
  pauseFromOutside?(target: Pausable, pauseMs: number): Promise<void>
}

/** What the lab can do to a worker from outside. */
export interface Pausable {
  /** Resolves when the process really stands still. */
  freeze(): Promise<void>
  /** Told to the process just before it is woken; it waits for this before it goes on. */
  sayGoOn(): void
  thaw(): void
}

/** Enough lanes to be quick, few enough that 30 processes share two cores. */
export const LANES_DEFAULT = 10
/** Each lane takes up to three processes of about 60 MB and up to six connections. */
export const LANES_MAX = 40
