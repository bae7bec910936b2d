/** The wallets: their tables, and what is read and written there. */
import type { Outcome } from '../../history.ts'
import type { Place } from '../../scenario.ts'
import { type Dialect, NUMBERED } from '../ground/database.ts'
import type { DataStores } from '../ground/ground.ts'

/**
 * Where `last_token` is the fence column of a guard written by hand; those of `guard.update` are
 * added to it. The log is the store's own account of what was written, by whom and over what: it is filled by a
 * trigger, in the transaction of the write and under the lock of its row, so its order is the order
 * in which the writes took effect. The checker compares the workers' accounts with it.
 */
const tablesOf = (dialect: Dialect): string => `
  CREATE TABLE wallets (
    id text PRIMARY KEY,
    balance integer NOT NULL,
    last_token bigint NOT NULL DEFAULT 0,
    claimed_by text
  );
  CREATE TABLE wallet_log (
    id ${NUMBERED[dialect]},
    wallet text NOT NULL,
    writer text NOT NULL,
    old_balance integer NOT NULL,
    new_balance integer NOT NULL
  );
  CREATE INDEX wallet_log_wallet ON wallet_log (wallet);
  ${TRIGGER[dialect]}
`

/** Who writes is what the connection says of itself when it is opened. */
const TRIGGER: Readonly<Record<Dialect, string>> = {
  postgres: `
    CREATE FUNCTION log_wallet() RETURNS trigger LANGUAGE plpgsql AS $$
      BEGIN
        INSERT INTO wallet_log (wallet, writer, old_balance, new_balance)
        VALUES (NEW.id, current_setting('application_name'), OLD.balance, NEW.balance);
        RETURN NULL;
      END $$;
    CREATE TRIGGER log_wallet AFTER UPDATE OF balance ON wallets
      FOR EACH ROW EXECUTE FUNCTION log_wallet();`,
  sqlite: `
    CREATE TRIGGER log_wallet AFTER UPDATE OF balance ON wallets BEGIN
      INSERT INTO wallet_log (wallet, writer, old_balance, new_balance)
      VALUES (NEW.id, application_name(), OLD.balance, NEW.balance);
    END;`,
}

/** The store of the wallets, with or without the guard that stands before it. */
type WithWallets = Pick<DataStores, 'db'>

export async function prepareTables({ db, guard }: Omit<DataStores, 'close'>): Promise<void> {
  await guard.migrate()
  await db.createOnce('wallets', tablesOf(db.dialect) + guard.ddlFor('wallets'))
}

export async function prepareWallets(stores: DataStores, places: readonly Place[]): Promise<void> {
  await prepareTables(stores)
  for (const { name } of places) await openWallet(stores, name, 0)
}

export async function openWallet(
  { db }: WithWallets,
  wallet: string,
  balance: number,
): Promise<void> {
  await db.query('INSERT INTO wallets (id, balance) VALUES ($1, $2)', [wallet, balance])
}

export async function balanceOf({ db }: WithWallets, wallet: string): Promise<number> {
  const { rows } = await db.query<{ balance: number }>(
    'SELECT balance FROM wallets WHERE id = $1',
    [wallet],
  )
  const [row] = rows
  if (row === undefined) throw new Error(`there is no wallet ${wallet}`)
  return row.balance
}

/** A round that does not count leaves the wallet as it was; the fence stays, it only ever rises. */
export async function putBack(
  { db }: WithWallets,
  { name }: Place,
  balance: number,
): Promise<Outcome> {
  await db.query('UPDATE wallets SET balance = $2 WHERE id = $1', [name, balance])
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

export async function walletState(stores: WithWallets, wallet: string): Promise<WalletState> {
  const { rows } = await stores.db.query<LoggedWrite>(
    `SELECT writer, old_balance AS "oldBalance", new_balance AS "newBalance"
     FROM wallet_log WHERE wallet = $1 ORDER BY id`,
    [wallet],
  )
  return { balance: await balanceOf(stores, wallet), log: rows }
}
