/** What the long job needs of a store: who reaches it how, and the store's own word of each lock. */
import type { Trial } from '../../trial.ts'
import type { HeldLock } from './holder.ts'

export interface LookedAt {
  /** Whose it is, or the text that names the owner; empty when it is nobody's. */
  readonly owner: string
  readonly leftMs: number
}

export interface JobStore {
  /** What the holders hold with: a process for each. */
  readonly clients: readonly string[]
  /** How the holders reach it, and how somebody else does. */
  readonly forHolders: object
  readonly forOthers: object
  /** What holders and somebody else run, where it is not `holdForLong` and `ask`. */
  readonly programs?: { readonly hold: string; readonly ask: string }
  /** How often the lab looks and somebody else asks, in milliseconds; every 100 by default. */
  readonly everyMs?: number
  /** Runs once, when all locks are held. */
  whenHeld?(): Promise<void>
  look(name: string): Promise<LookedAt>
  close(): Promise<void>
}

export type OpenJobStore = (trial: Trial, locks: readonly HeldLock[]) => Promise<JobStore>
