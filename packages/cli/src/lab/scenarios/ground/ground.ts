/**
 * What the scenarios stand on: locks of Holdfast, locks written by hand, a store with data, and the
 * guard there. It comes in two kinds: servers, which are Redis and PostgreSQL, and embedded, which
 * is files of SQLite and no server at all. A scenario asks for a ground and does the same on both.
 */
import type { Fenced, Locks } from 'holdfast'
import type { Addresses, Stores } from '../../scenario.ts'
import type { ServerKind } from '../../servers/index.ts'
import type { Database, Queryable } from './database.ts'

export type GroundKind = 'servers' | 'embedded'

/** What the scenarios call of a guard, whatever store it stands before. */
export interface DataGuard {
  claim(fenced: Fenced): Promise<unknown>
  transaction<T>(fenced: Fenced, act: (tx: Queryable) => Promise<T>): Promise<T>
  update(fenced: Fenced, change: GuardedChange): Promise<string>
  /** Makes what it keeps its records in. */
  migrate(): Promise<void>
  /** What gives a table the columns that `update` needs. */
  ddlFor(table: string): string
}

export interface GuardedChange {
  readonly table: string
  readonly where: Readonly<Record<string, string>>
  readonly set: Readonly<Record<string, unknown>>
}

/** A store and the guard in it; who keeps the locks is another matter. */
export interface DataStores extends Stores {
  readonly db: Database
  readonly guard: DataGuard
}

/** The wallets, and the locks, as one process has opened them. */
export interface WalletStores extends DataStores {
  readonly locks: Locks
}

/** What a program without Holdfast makes a lock of: an entry that names its owner and runs out. */
export interface HandLocks {
  /** SET NX PX: true when the name was free. */
  take(name: string, owner: string, ttlMs: number): Promise<boolean>
  /** DEL, whoever's it is: true when there was one. */
  remove(name: string): Promise<boolean>
}

/** Locks without data, once as a program writes them by hand and once through Holdfast. */
export interface LockStores extends Stores {
  readonly byHand: HandLocks
  readonly locks: Locks
  /** The entry of that name, by the store's own word; empty when there is none. */
  entryOf(name: string): Promise<string>
}

export interface Ground {
  readonly kind: GroundKind
  /** What must be on this machine for locks alone, and for locks and data. */
  readonly serversFor: Readonly<Record<'locks' | 'wallets', readonly ServerKind[]>>
  /** Opens it and uses it once, so that the first round is like the others. */
  openLocks(addresses: Addresses, role: string): Promise<LockStores>
  /** The same, except that `lab` takes no lock. */
  openWallets(addresses: Addresses, role: string): Promise<WalletStores>
  openData(addresses: Addresses, role: string): Promise<DataStores>
}
