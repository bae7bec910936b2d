/** What is done to one row, guarded and not. */
import type { PostgresServer } from '../../../packages/cli/dist/lab/servers/index.js'
import type { Label } from '../contestant.ts'

export type Connection = PostgresServer['connection']

/** Two tables alike; one has the columns of the fence beside its own. */
export type Table = 'wallets' | 'fenced_wallets'

/** One way to add to a balance; each works on a row of its own. */
export interface Transactor extends Label {
  readonly isReference: boolean
  /** What it is compared with: the reference of the same. */
  readonly comparedWith: string
  readonly table: Table
  /** Makes the balance of the row `id` larger by 1. */
  run(id: number): Promise<void>
}

export interface Transactors {
  readonly all: readonly Transactor[]
  /** Answers that its connections waited for so far; null where they cannot be told apart. */
  roundTrips(client: string): number | null
  close(): Promise<void>
}

/** Of leases: longer than any run. Milliseconds. */
export const TTL_MS = 3_600_000

export const READ = 'SELECT balance FROM wallets WHERE id = $1 FOR UPDATE'
export const WRITE = 'UPDATE wallets SET balance = $2 WHERE id = $1'
export const ROW = '(id int PRIMARY KEY, balance int) WITH (fillfactor = 50)'
