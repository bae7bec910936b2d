/** The wallets in PostgreSQL, the locks in Redis, and what opens them. */
import { createLocks, type Locks } from 'holdfast'
import { type PostgresGuard, postgresGuard } from 'holdfast/guards/postgres'
import { redisBackend } from 'holdfast/redis'
import type { Redis } from 'ioredis'
import pg from 'pg'
import type { Outcome } from '../../history.ts'
import type { Addresses, Place, Stores } from '../../scenario.ts'
import { openRedis } from '../redis-client.ts'

export interface WalletStores extends Stores {
  readonly pool: pg.Pool
  readonly locks: Locks
  readonly guard: PostgresGuard<pg.PoolClient>
}

/** One for the work, one more for the moment after the server has ended the first. */
const CONNECTIONS_MAX = 2

/**
 * Where `last_token` is the fence column of a guard written by hand; those of `guard.update` are
 * added to it. The log is the store's own account of what was written, by whom and over what: it is filled by a
 * trigger, in the transaction of the write and under the lock of its row, so its order is the order
 * in which the writes took effect. The checker compares the workers' accounts with it.
 */
const TABLES = `
  CREATE TABLE wallets (
    id text PRIMARY KEY,
    balance integer NOT NULL,
    last_token bigint NOT NULL DEFAULT 0,
    claimed_by text
  );
  CREATE TABLE wallet_log (
    id bigserial PRIMARY KEY,
    wallet text NOT NULL,
    writer text NOT NULL,
    old_balance integer NOT NULL,
    new_balance integer NOT NULL
  );
  CREATE INDEX ON wallet_log (wallet);
  CREATE FUNCTION log_wallet() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
      INSERT INTO wallet_log (wallet, writer, old_balance, new_balance)
      VALUES (NEW.id, current_setting('application_name'), OLD.balance, NEW.balance);
      RETURN NULL;
    END $$;
  CREATE TRIGGER log_wallet AFTER UPDATE OF balance ON wallets
    FOR EACH ROW EXECUTE FUNCTION log_wallet();
`

/** Opens both and uses both once, so that the first round is like the others. */
export async function openWalletStores(addresses: Addresses, role: string): Promise<WalletStores> {
  const pool = new pg.Pool({
    ...addresses.postgres,
    max: CONNECTIONS_MAX,
    idleTimeoutMillis: 0,
    application_name: role,
  })
  // A connection that the server ends while it lies in the pool; the pool opens another one.
  pool.on('error', () => {})
  const redis: Redis = await openRedis(addresses)
  const locks = createLocks(redisBackend(redis))
  const guard = postgresGuard(pool)
  await pool.query('SELECT 1')
  if (role !== 'lab') await warmUp(locks, guard)
  const close = async (): Promise<void> => {
    await locks.close()
    redis.disconnect()
    await pool.end()
  }
  return { pool, locks, guard, close }
}

/** Code that ran once, scripts that are loaded, a name of its own, and time enough. */
async function warmUp(locks: Locks, guard: WalletStores['guard']): Promise<void> {
  const lease = await locks.acquire(`warm-up:${process.pid}`, { ttlMs: 10_000, renew: false })
  await guard.transaction(lease, (client) => client.query('SELECT 1'))
  await lease.release()
}

/** Where the wallets are; who keeps the locks is another matter. */
export type WalletStore = Pick<WalletStores, 'guard' | 'pool'>

/** Several scenarios of one run, and arms at one time, share them: the first one creates them. */
export async function prepareTables({ guard, pool }: WalletStore): Promise<void> {
  await guard.migrate()
  const client = await pool.connect()
  try {
    await client.query('BEGIN')
    await client.query("SELECT pg_advisory_xact_lock(hashtext('wallets'))")
    const { rows } = await client.query<{ found: string | null }>(
      "SELECT to_regclass('wallets')::text AS found",
    )
    if (rows[0]?.found === null) await client.query(TABLES + guard.ddlFor('wallets'))
    await client.query('COMMIT')
    client.release()
  } catch (error) {
    client.release(true)
    throw error
  }
}

export async function prepareWallets(
  stores: WalletStores,
  places: readonly Place[],
): Promise<void> {
  await prepareTables(stores)
  for (const { name } of places) await openWallet(stores, name, 0)
}

export async function openWallet(
  { pool }: Pick<WalletStore, 'pool'>,
  wallet: string,
  balance: number,
): Promise<void> {
  await pool.query('INSERT INTO wallets (id, balance) VALUES ($1, $2)', [wallet, balance])
}

export async function balanceOf(
  { pool }: Pick<WalletStore, 'pool'>,
  wallet: string,
): Promise<number> {
  const { rows } = await pool.query<{ balance: number }>(
    'SELECT balance FROM wallets WHERE id = $1',
    [wallet],
  )
  const [row] = rows
  if (row === undefined) throw new Error(`there is no wallet ${wallet}`)
  return row.balance
}

/** A round that does not count leaves the wallet as it was; the fence stays, it only ever rises. */
export async function putBack(
  { pool }: WalletStores,
  { name }: Place,
  balance: number,
): Promise<Outcome> {
  await pool.query('UPDATE wallets SET balance = $2 WHERE id = $1', [name, balance])
  return { answer: 'applied', value: balance }
}

/** One write, as the store itself logged it. */
export interface LoggedWrite {
  readonly writer: string
  readonly oldBalance: number
  readonly newBalance: number
}

export interface WalletState {
  readonly balance: number
  /** In the order in which the writes took effect. */
  readonly log: readonly LoggedWrite[]
}

export async function walletState(
  stores: Pick<WalletStore, 'pool'>,
  wallet: string,
): Promise<WalletState> {
  const { rows } = await stores.pool.query<LoggedWrite>(
    `SELECT writer, old_balance AS "oldBalance", new_balance AS "newBalance"
     FROM wallet_log WHERE wallet = $1 ORDER BY id`,
    [wallet],
  )
  return { balance: await balanceOf(stores, wallet), log: rows }
}
