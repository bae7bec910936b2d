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

/** A lease or an attempt that its process gave back or up, or that the backend said it had undone. */
export type EndRecord = Readonly<{ atMs: number; how: 'cancelled' | 'released' | 'refused' }>

/** Something wrong with the keys of a lock node. */
export type AtNode = Readonly<{ invariant: 'I7' | 'I8'; what: string }>

export interface History {
  readonly held: HeldRecord[]
  readonly writes: WriteRecord[]
  /** What each register holds at the end: ids of writes. */
  readonly registers: Map<string, readonly number[]>
  /** Errors that no caller should ever see. */
  readonly strangeErrors: string[]
  /** When the store was first asked for a grant, by owner. */
  readonly askedAtMs: Map<string, number>
  /** Owners whose lease a holder was given. */
  readonly holders: Set<string>
  /** By owner, as last told. */
  readonly ended: Map<string, EndRecord>
  /** Owners of which the network has done a request twice. */
  readonly repeated: Set<string>
  readonly atNodes: AtNode[]
  /** How long a name was free at most while somebody waited for it, by name. Milliseconds. */
  readonly longestFreeMs: Map<string, number>
}

export function emptyHistory(): History {
  return {
    held: [],
    writes: [],
    registers: new Map(),
    strangeErrors: [],
    askedAtMs: new Map(),
    holders: new Set(),
    ended: new Map(),
    repeated: new Set(),
    atNodes: [],
    longestFreeMs: new Map(),
  }
}
