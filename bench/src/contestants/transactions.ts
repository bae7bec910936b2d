/**
 * One transaction, guarded and not: lock a row, read it, write it.
 *
 * The reference is the plain transaction with prepared statements, four round trips: BEGIN, SELECT FOR
 * UPDATE, UPDATE, COMMIT. What guards it differs, what it does to the row does not.
 */
import { createLocks, type Lease, type Locks, memoryBackend } from 'holdfast'
import { postgresGuard } from 'holdfast/guards/postgres'
import pg from 'pg'
import type { PostgresServer } from '../../../packages/cli/dist/lab/servers/index.js'
import type { Label } from '../contestant.ts'

/** One kind of transaction; each works on a row of its own. */
export interface Transactor extends Label {
  readonly isReference: boolean
  /** Adds 1 to the balance of the row `id` of `wallets`. */
  run(id: number): Promise<void>
}

export interface Transactors {
  readonly all: readonly Transactor[]
  /** Answers of the server that it waited for, on the connections of one client. */
  roundTrips(client: string): number | null
  close(): Promise<void>
}

/** Longer than any run. Milliseconds. */
const TTL_MS = 3_600_000
const LIMIT_MS = 30_000

const READ = { name: 'bench-read', text: 'SELECT balance FROM wallets WHERE id = $1 FOR UPDATE' }
const WRITE = { name: 'bench-write', text: 'UPDATE wallets SET balance = $2 WHERE id = $1' }
const CLAIM = {
  name: 'bench-claim',
  text: `INSERT INTO claims AS c (resource, token) VALUES ($1, $2) ON CONFLICT (resource)
    DO UPDATE SET token = EXCLUDED.token WHERE c.token <= EXCLUDED.token RETURNING token`,
}
/** What guards against a holder that stops inside, as a hand would write it. */
const BEGIN_BOUNDED = `BEGIN; SET LOCAL idle_in_transaction_session_timeout = ${LIMIT_MS};
  SET LOCAL statement_timeout = ${LIMIT_MS}; SET LOCAL lock_timeout = ${LIMIT_MS}`

const PLAIN = 'pg'
const PIPELINED = 'pg, pipeline'

type Connection = PostgresServer['connection']

export async function openTransactors(connection: Connection): Promise<Transactors> {
  const pools = { [PLAIN]: openPool(connection, false), [PIPELINED]: openPool(connection, true) }
  const locks = createLocks(memoryBackend(), { ttlMs: TTL_MS })
  const leases = await acquireAll(locks, ['holdfast', 'holdfast, pipeline'])
  const plain = pools[PLAIN].pool
  const pipelined = pools[PIPELINED].pool
  await createTables(plain)
  return {
    all: [
      handWritten(PLAIN, 'plain', true, (id) => transact(plain, 'BEGIN', id)),
      handWritten(PLAIN, 'with time-outs', false, (id) => transact(plain, BEGIN_BOUNDED, id)),
      handWritten(PLAIN, 'with a claim', false, (id) => transact(plain, 'BEGIN', id, CLAIM)),
      await guarded(PLAIN, plain, leases[0] as Lease),
      handWritten(PIPELINED, 'plain, BEGIN not awaited', false, (id) => pipeline(pipelined, id)),
      await guarded(PIPELINED, pipelined, leases[1] as Lease),
    ],
    // Of a pipeline several answers are one wait.
    roundTrips: (client) => (client === PLAIN ? pools[PLAIN].answers() : null),
    close: async () => {
      await locks.close()
      await Promise.all([plain.end(), pipelined.end()])
    },
  }
}

function acquireAll(locks: Locks, names: readonly string[]): Promise<Lease[]> {
  return Promise.all(names.map((name) => locks.acquire(name)))
}

function openPool(connection: Connection, isPipelined: boolean) {
  const pool = new pg.Pool({ ...connection, max: 1, pipeline: isPipelined } as pg.PoolConfig)
  pool.on('error', () => undefined)
  let answers = 0
  pool.on('connect', (client) => {
    // The driver's own connection; the server says with each answer that it is ready for more.
    const { connection: wire } = client as unknown as { connection: NodeJS.EventEmitter }
    wire.on('readyForQuery', () => answers++)
  })
  return { pool, answers: () => answers }
}

async function createTables(pool: pg.Pool): Promise<void> {
  await pool.query('CREATE TABLE wallets (id int PRIMARY KEY, balance int) WITH (fillfactor = 50)')
  await pool.query(
    'CREATE TABLE claims (resource text PRIMARY KEY, token bigint) WITH (fillfactor = 50)',
  )
}

function handWritten(
  client: string,
  variant: string,
  isReference: boolean,
  run: Transactor['run'],
): Transactor {
  return { who: 'hand-written', variant, client, isReference, run }
}

async function guarded(client: string, pool: pg.Pool, lease: Lease): Promise<Transactor> {
  const guard = postgresGuard(pool)
  await guard.migrate()
  return {
    who: 'holdfast',
    variant: 'guard.transaction',
    client,
    isReference: false,
    run: (id) => guard.transaction(lease, (tx) => addOne(tx, id)),
  }
}

async function addOne(client: pg.PoolClient, id: number): Promise<void> {
  const { rows } = await client.query<{ balance: number }>({ ...READ, values: [id] })
  const balance = (rows[0]?.balance ?? 0) + 1
  await client.query({ ...WRITE, values: [id, balance] })
}

async function transact(
  pool: pg.Pool,
  begin: string,
  id: number,
  claim: typeof CLAIM | null = null,
): Promise<void> {
  const client = await pool.connect()
  try {
    await client.query(begin)
    if (claim !== null) {
      const { rowCount } = await client.query({ ...claim, values: [`wallet:${id}`, 1] })
      if (rowCount !== 1) throw new Error('stale')
    }
    await addOne(client, id)
    await client.query('COMMIT')
  } catch (error) {
    await client.query('ROLLBACK')
    throw error
  } finally {
    client.release()
  }
}

/** BEGIN goes out with the first read. */
async function pipeline(pool: pg.Pool, id: number): Promise<void> {
  const client = await pool.connect()
  try {
    const [, { rows }] = await Promise.all([
      client.query('BEGIN'),
      client.query<{ balance: number }>({ ...READ, values: [id] }),
    ])
    await client.query({ ...WRITE, values: [id, (rows[0]?.balance ?? 0) + 1] })
    await client.query('COMMIT')
  } catch (error) {
    await client.query('ROLLBACK')
    throw error
  } finally {
    client.release()
  }
}
