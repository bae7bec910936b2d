/** Someone who asked for a lock and waits in a line; see wait.ts. */
import type { Settings } from '../core/options.ts'
import type { Entry } from './agenda.ts'
import type { Link } from './chain.ts'
import type { HeldLease } from './lease.ts'

export class Contender implements Link<Contender> {
  readonly lockName: string
  readonly settings: Settings
  readonly startedAtMs: number
  settled = false
  /** What its line had seen before it came. */
  handOversBefore = 0
  previous: Contender | null = null
  next: Contender | null = null
  deadline: Entry | null = null
  unlisten: (() => void) | null = null
  readonly resolve: (lease: HeldLease) => void
  readonly reject: (error: unknown) => void

  constructor(
    lockName: string,
    settings: Settings,
    startedAtMs: number,
    resolve: (lease: HeldLease) => void,
    reject: (error: unknown) => void,
  ) {
    this.lockName = lockName
    this.settings = settings
    this.startedAtMs = startedAtMs
    this.resolve = resolve
    this.reject = reject
  }
}
