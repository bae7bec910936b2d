/** Guards by the driver `postgres` on a private PostgreSQL, with connections of their own. */
import postgres from 'postgres'
import { systemSeams } from '../../src/core/seams.ts'
import { postgresGuardWith } from '../../src/guards/postgres/guard.ts'
import type { PostgresIsolation } from '../../src/guards/postgres.ts'
import type { GuardRequest } from '../../src/testkit/guard-suite-harness.ts'
import { CONNECTIONS_MAX, type OpenSql, type PostgresStand, type Row } from './postgres.ts'

export type Tx = postgres.TransactionSql
export type JsOptions = Readonly<{
  max?: number
  prepare?: boolean
  user?: string
  /** Settings of each session. */
  connection?: { default_transaction_read_only: boolean }
  transform?: { column: (name: string) => string }
}>
type Asked = postgres.Sql | Tx

export type OpenPostgresJs = OpenSql<Tx> & { readonly sql: postgres.Sql }

export function openSql(
  { server }: PostgresStand,
  port: number = server.port,
  options: JsOptions = {},
): postgres.Sql {
  const { host, user, database } = server.connection
  return postgres({
    host,
    port,
    user,
    database,
    max: CONNECTIONS_MAX,
    backoff: () => 0.01,
    ...options,
  })
}

export function openPostgresJs(
  stand: PostgresStand,
  request: GuardRequest = {},
  driverOptions: JsOptions = {},
): OpenPostgresJs {
  const { port, nonce, isolation, ...rest } = request
  const sql = openSql(stand, port, driverOptions)
  const seams = nonce === undefined ? systemSeams : { ...systemSeams, nonce }
  const options = { ...rest, isolation: isolation as PostgresIsolation | undefined }
  const guard = postgresGuardWith(sql, options, seams)
  return {
    sql,
    guard,
    column: {
      async add(id) {
        await sql`INSERT INTO written (id) VALUES (${id})`
      },
      update: (lease, id, value, { op, tx } = {}) =>
        guard.update(lease, { table: 'written', where: { id }, set: { value }, op }, tx),
      history: (id) => readEntries(sql, id),
    },
    async append(tx, resource, entry) {
      await tx`INSERT INTO entries (resource, entry) VALUES (${resource}, ${entry})`
    },
    entriesIn: (tx, resource) => readEntries(tx, resource),
    entries: (resource) => readEntries(sql, resource),
    fail: async (tx) => tx`SELECT 1 / 0`,
    run: async (tx, text, values) => tx.unsafe<Row[]>(text, [...(values ?? [])]),
    outside: async (text, values) => sql.unsafe<Row[]>(text, [...(values ?? [])]),
    begin: (isolation = 'read committed') => beginOwn(sql, isolation),
    close: () => sql.end({ timeout: 1 }),
  }
}

/** The driver ends a transaction when its function does, so the function waits to be told how. */
function beginOwn(sql: postgres.Sql, isolation: string): ReturnType<OpenPostgresJs['begin']> {
  const rolledBack = new Error('rolled back on purpose')
  return new Promise((resolve, reject) => {
    const ended = sql.begin(
      `isolation level ${isolation}`,
      (tx) =>
        new Promise<void>((commit, fail) => {
          const end = async (how: () => void): Promise<void> => {
            how()
            await ended.catch((error) => {
              if (error !== rolledBack) throw error
            })
          }
          resolve({ tx, commit: () => end(commit), rollBack: () => end(() => fail(rolledBack)) })
        }),
    )
    ended.catch(reject)
  })
}

async function readEntries(asked: Asked, resource: string): Promise<readonly string[]> {
  const rows = await asked<{ entry: string }[]>`
    SELECT entry FROM entries WHERE resource = ${resource} ORDER BY id`
  return rows.map(({ entry }) => entry)
}
