/**
 * Transactions by the driver `pg`.
 *
 * The reference is the plain transaction with prepared statements, four round trips: BEGIN, SELECT FOR
 * UPDATE, UPDATE, COMMIT. What guards it differs, what it does to the row does not. One statement
 * alone is compared with one statement alone.
 */
import { createLocks, type Lease, memoryBackend } from 'holdfast'
import { type PostgresGuard, postgresGuard } from 'holdfast/guards/postgres'
import pg from 'pg'
import {
  type Connection,
  READ,
  ROW,
  type Transactor,
  type Transactors,
  TTL_MS,
  WRITE,
} from './transactions.ts'

type Guard = PostgresGuard<pg.PoolClient>

/** What guards against a holder that stops inside, as a hand would write it. Milliseconds. */
const LIMIT_MS = 30_000
const BEGIN_BOUNDED = `BEGIN; SET LOCAL idle_in_transaction_session_timeout = ${LIMIT_MS};
  SET LOCAL statement_timeout = ${LIMIT_MS}; SET LOCAL lock_timeout = ${LIMIT_MS}`

const PREPARED = {
  read: { name: 'bench-read', text: READ },
  write: { name: 'bench-write', text: WRITE },
  readFenced: { name: 'bench-read-fenced', text: READ.replace('wallets', 'fenced_wallets') },
  add: { name: 'bench-add', text: 'UPDATE wallets SET balance = balance + 1 WHERE id = $1' },
  claim: {
    name: 'bench-claim',
    text: `INSERT INTO claims AS c (resource, token) VALUES ($1, $2) ON CONFLICT (resource)
      DO UPDATE SET token = EXCLUDED.token WHERE c.token <= EXCLUDED.token RETURNING token`,
  },
} as const

const PLAIN = 'pg'
const PIPELINED = 'pg, pipeline'
const ONE_STATEMENT = 'pg, one statement'

export async function openPgTransactors(connection: Connection): Promise<Transactors> {
  const pools = { [PLAIN]: openPool(connection, false), [PIPELINED]: openPool(connection, true) }
  const { pool } = pools[PLAIN]
  const pipelined = pools[PIPELINED].pool
  const locks = createLocks(memoryBackend(), { ttlMs: TTL_MS })
  const guard: Guard = postgresGuard(pool)
  await createTables(pool, guard)
  const lease = (name: string): Promise<Lease> => locks.acquire(name)
  return {
    all: [
      ...plainOnes(pool),
      guarded(PLAIN, guard, await lease('pg')),
      columnForm(pool, guard, await lease('column form')),
      hand(PIPELINED, 'plain, BEGIN not awaited', (id) => pipeline(pipelined, id)),
      guarded(
        PIPELINED,
        postgresGuard(pipelined, { pipelined: true }),
        await lease('pg, pipeline'),
      ),
      oneStatement(pool),
      oneGuardedStatement(guard, await lease('one statement')),
    ],
    // Of a pipeline several answers are one wait.
    roundTrips: (client) => (client === PIPELINED ? null : pools[PLAIN].answers()),
    close: async () => {
      await locks.close()
      await Promise.all([pool.end(), pipelined.end()])
    },
  }
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

async function createTables(pool: pg.Pool, guard: Guard): Promise<void> {
  await pool.query(`CREATE TABLE wallets ${ROW}`)
  await pool.query(`CREATE TABLE fenced_wallets ${ROW}`)
  await pool.query(
    'CREATE TABLE claims (resource text PRIMARY KEY, token bigint) WITH (fillfactor = 50)',
  )
  await guard.migrate()
  await pool.query(guard.ddlFor('fenced_wallets'))
}

function plainOnes(pool: pg.Pool): Transactor[] {
  const plain = hand(PLAIN, 'plain', (id) => transact(pool, 'BEGIN', (client) => add(client, id)))
  return [
    { ...plain, isReference: true },
    hand(PLAIN, 'with time-outs', (id) =>
      transact(pool, BEGIN_BOUNDED, (client) => add(client, id)),
    ),
    hand(PLAIN, 'with a claim', (id) =>
      transact(pool, 'BEGIN', async (client) => {
        await claim(client, id)
        await add(client, id)
      }),
    ),
  ]
}

const COMPARED = { comparedWith: PLAIN, table: 'wallets', isReference: false } as const

function hand(client: string, variant: string, run: Transactor['run']): Transactor {
  return { ...COMPARED, who: 'hand-written', variant, client, run }
}

function guarded(client: string, guard: Guard, lease: Lease): Transactor {
  const run = (id: number): Promise<void> => guard.transaction(lease, (tx) => add(tx, id))
  return { ...COMPARED, who: 'holdfast', variant: 'guard.transaction', client, run }
}

/** The user's own transaction; the write carries the fence, so that no claim comes before it. */
function columnForm(pool: pg.Pool, guard: Guard, lease: Lease): Transactor {
  const run = (id: number): Promise<void> =>
    transact(pool, 'BEGIN', async (client) => {
      const { rows } = await client.query({ ...PREPARED.readFenced, values: [id] })
      const set = { balance: rows[0].balance + 1 }
      const write = { table: 'fenced_wallets', where: { id }, set }
      applied(await guard.update(lease, write, client))
    })
  const variant = 'guard.update'
  return { ...COMPARED, who: 'holdfast', variant, client: PLAIN, table: 'fenced_wallets', run }
}

function oneStatement(pool: pg.Pool): Transactor {
  const run = async (id: number): Promise<void> => {
    await pool.query({ ...PREPARED.add, values: [id] })
  }
  const one = hand(ONE_STATEMENT, 'plain', run)
  return { ...one, comparedWith: ONE_STATEMENT, isReference: true }
}

function oneGuardedStatement(guard: Guard, lease: Lease): Transactor {
  let balance = 0
  const run = async (id: number): Promise<void> => {
    balance++
    const write = { table: 'fenced_wallets', where: { id }, set: { balance } }
    applied(await guard.update(lease, write))
  }
  const label = { who: 'holdfast', variant: 'guard.update', client: ONE_STATEMENT }
  return { ...COMPARED, ...label, comparedWith: ONE_STATEMENT, table: 'fenced_wallets', run }
}

function applied(result: string): void {
  if (result !== 'applied') throw new Error(`the write was not applied: ${result}`)
}

async function add(client: pg.PoolClient, id: number): Promise<void> {
  const { rows } = await client.query({ ...PREPARED.read, values: [id] })
  await client.query({ ...PREPARED.write, values: [id, rows[0].balance + 1] })
}

async function claim(client: pg.PoolClient, id: number): Promise<void> {
  const { rowCount } = await client.query({ ...PREPARED.claim, values: [`wallet:${id}`, 1] })
  if (rowCount !== 1) throw new Error('the claim was refused')
}

async function transact(
  pool: pg.Pool,
  begin: string,
  work: (client: pg.PoolClient) => Promise<void>,
): Promise<void> {
  const client = await pool.connect()
  try {
    await client.query(begin)
    await work(client)
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
      client.query({ ...PREPARED.read, values: [id] }),
    ])
    await client.query({ ...PREPARED.write, values: [id, rows[0].balance + 1] })
    await client.query('COMMIT')
  } catch (error) {
    await client.query('ROLLBACK')
    throw error
  } finally {
    client.release()
  }
}
