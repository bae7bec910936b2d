/**
 * Statements with values of the user's by the driver `pg`, prepared where that is safe.
 *
 * Planning a guarded write costs more than executing it, so the driver is asked to name it. But a
 * pooler between us and the server may hand out another server session each time, which has never met
 * the name; then the statement fails, and the caller's transaction with it. So each connection is
 * asked once for the server's process: only where that is the one that the driver itself talks to,
 * nothing stands between.
 */
import type { PgClient } from './pg-pool.ts'
import { isForgotten } from './postgres.ts'
import type { NamedText, PgAnswer, Write } from './postgres-wire.ts'

/** What we use of pg's client beyond the declared shape: its process, and named statements. */
type Naming = {
  readonly processID?: unknown
  query(config: { name: string; text: string; values: unknown[] }): Promise<PgAnswer>
}

/** By connection: whether it keeps statements. */
const keeping = new WeakMap<PgClient, boolean>()

const PROCESS = 'SELECT pg_backend_pid() AS pid'

/** Asked once for each connection. */
async function ask(client: PgClient): Promise<boolean> {
  const { processID } = client as unknown as Naming
  // Another driver of the same shape, of which nothing else is known.
  if (typeof processID !== 'number') return false
  const isDirect = Number((await client.query(PROCESS)).rows[0]?.pid) === processID
  keeping.set(client, isDirect)
  return isDirect
}

export function writeOn(client: PgClient): Write {
  const forgets = (error: unknown): never => {
    if (isForgotten(error)) keeping.set(client, false)
    throw error
  }
  const send = (keeps: boolean, { name, text }: NamedText, values: unknown[]) =>
    keeps
      ? (client as unknown as Naming).query({ name, text, values }).catch(forgets)
      : client.query(text, values)
  return (statement, values) => {
    const known = keeping.get(client)
    if (known !== undefined) return send(known, statement, values)
    return ask(client).then((keeps) => send(keeps, statement, values))
  }
}
