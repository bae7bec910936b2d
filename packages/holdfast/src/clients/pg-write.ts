/**
 * Statements with values of the user's by the driver `pg`, prepared where that is safe.
 *
 * Planning a guarded write costs more than executing it, so the driver is asked to name it. But a
 * pooler between us and the server may hand out another server session each time, which has never met
 * the name; then the statement fails, and the caller's transaction with it. So on each connection
 * they go without a name until one of them has told the server's process (a column `pid`): only where
 * that is the one that the driver itself talks to, nothing stands between.
 */
import type { PgClient } from './pg-pool.ts'
import { isForgotten } from './postgres.ts'
import type { PgAnswer, Write } from './postgres-wire.ts'

/** What we use of pg's client beyond the declared shape: its process, and named statements. */
type Naming = {
  readonly processID?: unknown
  query(config: { name: string; text: string; values: unknown[] }): Promise<PgAnswer>
}

/** By connection: whether it keeps statements. Of others nothing is known yet. */
const keeping = new WeakMap<PgClient, boolean>()

export function writeOn(client: PgClient): Write {
  const naming = client as unknown as Naming
  return async ({ name, text }, values) => {
    if (keeping.get(client) !== true) {
      const answer = await client.query(text, values)
      const pid = answer.rows[0]?.pid
      if (pid !== undefined && !keeping.has(client)) {
        keeping.set(client, Number(pid) === naming.processID)
      }
      return answer
    }
    try {
      return await naming.query({ name, text, values })
    } catch (error) {
      if (isForgotten(error)) keeping.set(client, false)
      throw error
    }
  }
}
