/**
 * What stands in the file of the locks, read past Holdfast: the lab's own look, as it is one with GET
 * on a server. The columns are those of docs/wire.md.
 */
import { uptime } from 'node:os'
import { join } from 'node:path'
import type { Addresses } from '../../scenario.ts'
import type { Queryable } from './database.ts'

export interface LockEntry {
  readonly owner: string
  /** At least so long until anybody else can be granted it. */
  readonly leftMs: number
}

/** The clock of the file counts in steps, and shows the last one that is over. */
const CLOCK_GRAIN_MS = 10

export function lockFileIn({ sqlite }: Addresses): string {
  if (sqlite === undefined) throw new Error('this scenario needs a folder for its files')
  return join(sqlite.folder, 'locks.db')
}

/** Null: it is nobody's. */
export async function lockEntry(db: Queryable, name: string): Promise<LockEntry | null> {
  const { rows } = await db.query<{ owner: string | null; endsAtMs: number }>(
    'SELECT owner, ends_at_ms AS "endsAtMs" FROM holdfast_locks WHERE lock_name = $1',
    [name],
  )
  const [row] = rows
  if (row === undefined || row.owner === null) return null
  const leftMs = Math.round(row.endsAtMs - uptime() * 1_000) - CLOCK_GRAIN_MS
  return leftMs > 0 ? { owner: row.owner, leftMs } : null
}

/** The same of one that was made by hand, which counts on the wall clock. */
export async function handEntry(db: Queryable, name: string): Promise<LockEntry | null> {
  const { rows } = await db.query<{ owner: string; expiresAtMs: number }>(
    'SELECT owner, expires_at_ms AS "expiresAtMs" FROM hand_locks WHERE name = $1',
    [name],
  )
  const [row] = rows
  if (row === undefined) return null
  const leftMs = row.expiresAtMs - Date.now()
  return leftMs > 0 ? { owner: row.owner, leftMs } : null
}
