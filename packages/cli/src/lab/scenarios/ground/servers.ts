/** The data in PostgreSQL, the locks in Redis, and what opens them. */
import { createLocks } from 'holdfast'
import { type PostgresGuard, postgresGuard } from 'holdfast/guards/postgres'
import { redisBackend } from 'holdfast/redis'
import pg from 'pg'
import type { Addresses } from '../../scenario.ts'
import type { Database, Queryable } from './database.ts'
import type { DataGuard, DataStores, Ground, LockStores, WalletStores } from './ground.ts'
import { openRedis } from './redis-client.ts'
import { warmUp } from './warm-up.ts'

/** One for the work, one more for the moment after the server has ended the first. */
const CONNECTIONS_MAX = 2
/** What Holdfast puts before a lock name by default; the lab looks at the key itself. */
const HOLDFAST_PREFIX = 'lock:'

export const servers: Ground = {
  kind: 'servers',
  serversFor: { locks: ['redis'], wallets: ['redis', 'postgres'] },
  openLocks,
  openWallets,
  openData,
}

async function openLocks(addresses: Addresses): Promise<LockStores> {
  const redis = await openRedis(addresses)
  const locks = createLocks(redisBackend(redis))
  await warmUp(locks)
  return {
    locks,
    byHand: {
      take: async (name, owner, ttlMs) =>
        (await redis.set(name, owner, 'PX', ttlMs, 'NX')) === 'OK',
      remove: async (name) => (await redis.del(name)) === 1,
    },
    entryOf: async (name) => {
      const [bare, holdfast] = await redis.mget(name, HOLDFAST_PREFIX + name)
      return bare ?? holdfast ?? ''
    },
    close: async () => {
      await locks.close()
      redis.disconnect()
    },
  }
}

async function openWallets(addresses: Addresses, role: string): Promise<WalletStores> {
  const data = await openData(addresses, role)
  const redis = await openRedis(addresses)
  const locks = createLocks(redisBackend(redis))
  if (role !== 'lab') await warmUp(locks, data.guard)
  const close = async (): Promise<void> => {
    await locks.close()
    redis.disconnect()
    await data.close()
  }
  return { ...data, locks, close }
}

async function openData(addresses: Addresses, role: string): Promise<DataStores> {
  const pool = new pg.Pool({
    ...addresses.postgres,
    max: CONNECTIONS_MAX,
    idleTimeoutMillis: 0,
    application_name: role,
  })
  // A connection that the server ends while it lies in the pool; the pool opens another one.
  pool.on('error', () => {})
  await pool.query('SELECT 1')
  return { db: databaseOf(pool), guard: guardOf(postgresGuard(pool)), close: () => pool.end() }
}

function databaseOf(pool: pg.Pool): Database {
  const createOnce = (table: string, ddl: string): Promise<void> => createIn(pool, table, ddl)
  return { dialect: 'postgres', createOnce, ...queryableOf(pool) }
}

async function createIn(pool: pg.Pool, table: string, ddl: string): Promise<void> {
  const client = await pool.connect()
  try {
    await client.query('BEGIN')
    await client.query('SELECT pg_advisory_xact_lock(hashtext($1))', [table])
    const found = 'SELECT to_regclass($1)::text AS found'
    const { rows } = await client.query<{ found: string | null }>(found, [table])
    if (rows[0]?.found === null) await client.query(ddl)
    await client.query('COMMIT')
    client.release()
  } catch (error) {
    client.release(true)
    throw error
  }
}

function queryableOf(client: Pick<pg.Pool, 'query'>): Queryable {
  return {
    query: async <Row>(text: string, values?: readonly unknown[]) => {
      const { rows, rowCount } = await client.query(text, values && [...values])
      return { rows: rows as Row[], rowCount: rowCount ?? 0 }
    },
  }
}

function guardOf(guard: PostgresGuard<pg.PoolClient>): DataGuard {
  return {
    claim: (fenced) => guard.claim(fenced),
    transaction: (fenced, act) => guard.transaction(fenced, (client) => act(queryableOf(client))),
    update: (fenced, change) => guard.update(fenced, change),
    migrate: () => guard.migrate(),
    ddlFor: (table) => guard.ddlFor(table),
  }
}
