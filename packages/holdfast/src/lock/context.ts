/** What the parts of one engine share. Made once by `createLocks`; see lock.ts. */
import type { Backend, HolderInfo } from '../core/backend.ts'
import type { Emitter } from '../core/events.ts'
import type { OptionReader, Settings } from '../core/options.ts'
import type { Seams } from '../core/seams.ts'
import type { Agenda } from './agenda.ts'
import type { Attempt } from './attempt.ts'
import type { HeldLease } from './lease.ts'
import type { Names } from './names.ts'
import type { Ended, Ending } from './pass-on.ts'
import type { Pulse } from './pulse.ts'
import type { Turns } from './turns.ts'
import type { Undo } from './undo.ts'
import type { Waits } from './wait.ts'

export interface Context {
  readonly seams: Seams
  readonly backend: Backend
  readonly emitter: Emitter
  readonly options: OptionReader
  readonly self: Pick<HolderInfo, 'host' | 'pid'>
  /** By which contenders of this engine mark a name as wanted. */
  readonly waiter: string
  /** Deadlines, renewals, undoing: none of them keeps the process running. */
  readonly agenda: Agenda
  /** What a caller waits for: these keep the process running. */
  readonly waiting: Agenda
  readonly undo: Undo
  /** See pass-on.ts. */
  readonly endGrant: (ending: Ending) => Promise<Ended>
  readonly waits: Waits
  /** In place of `waits` on a store with a queue of its own. */
  readonly turns: Turns
  /** The youngest lease of each lock name, until it is lost or its release is answered. */
  readonly held: Names<HeldLease>
  /** Every lease that is neither being released nor lost; two of one name after a take-over. */
  readonly leases: HeldLease[]
  /** Attempts in flight for callers who stand in no line. */
  readonly attempts: Set<Attempt>
  readonly isClosed: () => boolean
  readonly pulse: Pulse
}

/** What people will see of the holder of a lease with these settings. */
export function holderInfo(context: Context, settings: Settings): HolderInfo {
  const { label, value } = settings
  if (label === undefined && value === undefined) return context.self
  return {
    ...context.self,
    ...(label === undefined ? {} : { label }),
    ...(value === undefined ? {} : { value }),
  }
}

/** How long the store keeps the entry: the lease, its lock delay, or a longer minimum hold. */
export function storeTtlMs(settings: Settings): number {
  return Math.max(settings.ttlMs + settings.lockDelayMs, settings.minHoldMs)
}
