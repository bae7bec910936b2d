/** The data that the examples with PostgreSQL work on. */
import { Client } from 'pg'

export async function createWallets(): Promise<void> {
  const client = new Client()
  await client.connect()
  await client.query(
    'create table if not exists wallets (id int primary key, balance int not null)',
  )
  await client.query(
    'insert into wallets values (42, 100) on conflict (id) do update set balance = 100',
  )
  await client.end()
}
