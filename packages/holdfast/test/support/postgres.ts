/** One private PostgreSQL for a file of tests, and guards on it with connections of their own. */
import pg from 'pg'
import { type PostgresServer, startPostgres } from '../../../cli/src/lab/servers/index.ts'
import { randomOwner } from '../../src/core/owner.ts'
import { systemSeams } from '../../src/core/seams.ts'
import { postgresGuardWith } from '../../src/guards/postgres/guard.ts'
import type { PostgresGuard, PostgresIsolation } from '../../src/guards/postgres.ts'
import {
  fenced,
  type GuardRequest,
  gate,
  type OpenGuard,
  type OwnTransaction,
} from '../../src/testkit/guard-suite-harness.ts'

/** Fewer than the calls that a check makes at once: a connection that is not given back shows. */
export const CONNECTIONS_MAX = 4

/** Rows of the column form. What is written to one is noted by the database, in the order of commits. */
const WRITTEN_ROWS = `
  CREATE TABLE written (id text PRIMARY KEY, value text);
  CREATE FUNCTION note_written() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN INSERT INTO entries (resource, entry) VALUES (NEW.id, NEW.value); RETURN NULL; END $$;
  CREATE TRIGGER note AFTER UPDATE ON written FOR EACH ROW EXECUTE FUNCTION note_written()`

export interface PostgresStand {
  readonly server: PostgresServer
  /** @param isPipelined The clients are in pipeline mode, and the guard makes use of it. */
  open(request?: GuardRequest, isPipelined?: boolean): Promise<OpenPostgres>
  stop(): Promise<void>
}

/** What tests ask of a guard's connections, whichever driver they are by. */
export interface OpenSql<Tx> extends OpenGuard<Tx> {
  readonly guard: PostgresGuard<Tx>
  /** One statement inside `tx`. */
  run(tx: Tx, text: string, values?: readonly string[]): Promise<readonly Row[]>
  /** One statement of its own, on any connection of the pool. */
  outside(text: string, values?: readonly string[]): Promise<readonly Row[]>
  begin(isolation?: string): Promise<OwnTransaction<Tx>>
}

export type Row = Readonly<Record<string, unknown>>

export type OpenPostgres = OpenSql<pg.PoolClient> & { readonly pool: pg.Pool }

export async function startPostgresStand(): Promise<PostgresStand> {
  const server = await startPostgres()
  const first = openPool(server, server.port)
  const guard = postgresGuardWith(first, {})
  await guard.migrate()
  await first.query('CREATE TABLE entries (id bigserial PRIMARY KEY, resource text, entry text)')
  await first.query(`${WRITTEN_ROWS}; ${guard.ddlFor('written')}`)
  await first.end()
  const open = async (request: GuardRequest = {}, isPipelined = false): Promise<OpenPostgres> =>
    openGuard(server, request, isPipelined)
  return {
    server,
    open,
    stop: () => server.stop(),
  }
}

export function openPool(
  { connection }: PostgresServer,
  port: number,
  options: pg.PoolConfig = {},
): pg.Pool {
  const pool = new pg.Pool({ ...connection, port, max: CONNECTIONS_MAX, ...options })
  // Idle connections that a check breaks on purpose; without a listener the process would end.
  pool.on('error', () => undefined)
  return pool
}

/**
 * A pipelined guard whose transactions all begin in one flight: the first one of a connection never
 * does, so each connection is there and has had it.
 */
export async function openInFlight(
  stand: PostgresStand,
  request: GuardRequest = {},
): Promise<OpenPostgres> {
  const opened = await stand.open(request, true)
  await prepareAll(opened.pool)
  return opened
}

async function prepareAll(pool: pg.Pool): Promise<void> {
  const guard = postgresGuardWith(pool, {})
  const { opened, open } = gate()
  let begun = 0
  const transactions = Array.from({ length: CONNECTIONS_MAX }, () =>
    guard.transaction(fenced(`warm:${randomOwner()}`, 1n), async () => {
      begun += 1
      if (begun === CONNECTIONS_MAX) open()
      await opened
    }),
  )
  await Promise.all(transactions)
}

function openGuard(
  server: PostgresServer,
  request: GuardRequest,
  isPipelined: boolean,
): OpenPostgres {
  const { port = server.port, nonce, isolation, ...rest } = request
  const pool = openPool(server, port, { pipeline: isPipelined })
  const seams = nonce === undefined ? systemSeams : { ...systemSeams, nonce }
  const options = {
    ...rest,
    isolation: isolation as PostgresIsolation | undefined,
    pipelined: isPipelined,
  }
  const guard = postgresGuardWith(pool, options, seams)
  return {
    pool,
    guard,
    column: {
      async add(id) {
        await pool.query('INSERT INTO written (id) VALUES ($1)', [id])
      },
      update: (lease, id, value, { op, tx } = {}) =>
        guard.update(lease, { table: 'written', where: { id }, set: { value }, op }, tx),
      history: (id) => readEntries(pool, id),
    },
    async append(tx, resource, entry) {
      await tx.query('INSERT INTO entries (resource, entry) VALUES ($1, $2)', [resource, entry])
    },
    entriesIn: (tx, resource) => readEntries(tx, resource),
    entries: (resource) => readEntries(pool, resource),
    fail: (tx) => tx.query('SELECT 1 / 0'),
    run: async (tx, text, values) => (await tx.query(text, [...(values ?? [])])).rows,
    outside: async (text, values) => (await pool.query(text, [...(values ?? [])])).rows,
    async begin(isolation = 'read committed') {
      const tx = await pool.connect()
      await tx.query(`BEGIN ISOLATION LEVEL ${isolation}`)
      const end = async (text: string): Promise<void> => {
        await tx.query(text)
        tx.release()
      }
      return { tx, commit: () => end('COMMIT'), rollBack: () => end('ROLLBACK') }
    },
    close: () => pool.end(),
  }
}

async function readEntries(
  asked: pg.Pool | pg.PoolClient,
  resource: string,
): Promise<readonly string[]> {
  const text = 'SELECT entry FROM entries WHERE resource = $1 ORDER BY id'
  const { rows } = await asked.query<{ entry: string }>(text, [resource])
  return rows.map(({ entry }) => entry)
}

/** What a call was refused with: the code of a `LockError`, or PostgreSQL's own. */
export function codeOf(settled: PromiseSettledResult<unknown>): unknown {
  return settled.status === 'rejected' ? settled.reason.code : settled.status
}

export function reasonOf(settled: PromiseSettledResult<unknown>): unknown {
  return settled.status === 'rejected' ? settled.reason : undefined
}

/** A message of the simple protocol ends with a zero byte; `READ COMMITTED` is no COMMIT. */
export function isCommit(bytes: Uint8Array): boolean {
  return Buffer.from(bytes).includes('COMMIT\0')
}
