/** SET NX PX, PEXPIRE and DEL as somebody writes them by hand for a table of SQLite. */
import type { Database, Queryable } from './database.ts'
import type { HandLocks } from './ground.ts'

const TABLE = `CREATE TABLE hand_locks (
  name text PRIMARY KEY, owner text NOT NULL, expires_at_ms integer NOT NULL)`

/**
 * Later than its end, not at it, as Redis counts: the clock shows whole milliseconds, so at the one in
 * which a lock ends up to 1 ms of it may be left.
 */
const TAKE = `
  INSERT INTO hand_locks (name, owner, expires_at_ms) VALUES ($1, $2, $3)
  ON CONFLICT (name) DO UPDATE SET owner = excluded.owner, expires_at_ms = excluded.expires_at_ms
  WHERE hand_locks.expires_at_ms < $4`

/** Also within a transaction. */
export async function takeByHand(
  db: Queryable,
  name: string,
  owner: string,
  ttlMs: number,
): Promise<boolean> {
  const nowMs = Date.now()
  const { rowCount } = await db.query(TAKE, [name, owner, nowMs + ttlMs, nowMs])
  return rowCount === 1
}

/** What a timer needs beside them. */
export interface RenewedByHand extends HandLocks {
  /** PEXPIRE, whoever's it is: true when there was one. */
  renew(name: string, ttlMs: number): Promise<boolean>
}

export async function openHandLocks(db: Database): Promise<RenewedByHand> {
  await db.createOnce('hand_locks', TABLE)
  return {
    renew: async (name, ttlMs) => {
      const sql = 'UPDATE hand_locks SET expires_at_ms = $2 WHERE name = $1'
      const { rowCount } = await db.query(sql, [name, Date.now() + ttlMs])
      return rowCount === 1
    },
    take: async (name, owner, ttlMs) => {
      return takeByHand(db, name, owner, ttlMs)
    },
    remove: async (name) => {
      const { rowCount } = await db.query('DELETE FROM hand_locks WHERE name = $1', [name])
      return rowCount === 1
    },
  }
}
