/** What happened in a schedule, in true time and as seen from outside. */

/** A lease that a holder was given. All times are true time, in milliseconds. */
export interface HeldRecord {
  readonly process: string
  readonly lockName: string
  readonly token: bigint
  /** When its attempt began: its owner was made, nothing was sent. */
  readonly beganAtMs: number
  readonly heldFromMs: number
  /** Until when its holder may take it for valid: as last seen, or when it was over. */
  validUntilMs: number
  /** It was over, and later valid again. */
  isRevived: boolean
  /** How long its signal came after its deadline, in a process that ran. */
  signalLateMs: number
}

/** `unknown`: it may have happened, and is neither required nor forbidden. */
export type WriteOutcome = 'acknowledged' | 'refused' | 'unknown'

/** A request to the data under a lease. */
export interface WriteRecord {
  /** Null: it only claimed and read. */
  readonly id: number | null
  readonly lockName: string
  readonly token: bigint
  readonly atMs: number
  readonly outcome: WriteOutcome
}

export interface History {
  readonly held: HeldRecord[]
  readonly writes: WriteRecord[]
  /** What each register holds at the end: ids of writes. */
  readonly registers: Map<string, readonly number[]>
  /** Errors that no caller should ever see. */
  readonly strangeErrors: string[]
}

export function emptyHistory(): History {
  return { held: [], writes: [], registers: new Map(), strangeErrors: [] }
}
