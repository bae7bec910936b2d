/** The lock store of a world: how processes reach it, and what can befall it. */
import type { Backend } from '../../core/backend.ts'
import type { History } from '../history.ts'
import type { Link } from '../link.ts'
import type { Process } from '../process.ts'
import type { Random } from '../random.ts'
import type { Scenario } from '../scenarios.ts'

/** The parts of a world that a store is made of. */
export interface Ground {
  readonly random: Random
  readonly scenario: Scenario
  readonly history: History
  /** A process with a rate of its own. */
  process(name: string): Process
}

/** A process' own way to the store. */
export type Reached = Readonly<{ backend: Backend; links: readonly Link[] }>

/** What can happen to a store; a store lacks what makes no sense for it. */
export type StoreAccident = 'pause' | 'step' | 'rate' | 'stop' | 'loss'

export interface LockStore {
  readonly accidents: Readonly<Partial<Record<StoreAccident, () => void>>>
  /** At the very beginning, before anybody asks. */
  prepare?(): void
  reach(process: Process): Reached
  /** After each event, at that moment of true time: node by node, what must always be true. */
  look(nowMs: number): void
}
