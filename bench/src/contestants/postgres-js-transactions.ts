/** The same transaction by the driver `postgres`, whose own `begin` is the reference. */
import { createLocks, memoryBackend } from 'holdfast'
import { postgresGuard } from 'holdfast/guards/postgres'
import postgres from 'postgres'
import { type Connection, type Transactor, type Transactors, TTL_MS } from './transactions.ts'

const CLIENT = 'postgres'

/** The tables are there. */
export async function openPostgresJsTransactors(connection: Connection): Promise<Transactors> {
  const sql = postgres({ ...connection, max: 1, onnotice: () => undefined })
  const locks = createLocks(memoryBackend(), { ttlMs: TTL_MS })
  const guard = postgresGuard(sql)
  const lease = await locks.acquire(CLIENT)
  const label = { client: CLIENT, comparedWith: CLIENT, table: 'wallets' } as const
  const all: Transactor[] = [
    {
      ...{ ...label, who: 'hand-written', variant: 'plain', isReference: true },
      run: async (id) => {
        await sql.begin((tx) => add(tx, id))
      },
    },
    {
      ...{ ...label, who: 'holdfast', variant: 'guard.transaction', isReference: false },
      run: (id) => guard.transaction(lease, (tx) => add(tx, id)),
    },
  ]
  return {
    all,
    roundTrips: () => null,
    close: async () => {
      await locks.close()
      await sql.end({ timeout: 1 })
    },
  }
}

async function add(tx: postgres.TransactionSql, id: number): Promise<void> {
  const [row] = await tx<{ balance: number }[]>`
    SELECT balance FROM wallets WHERE id = ${id} FOR UPDATE`
  await tx`UPDATE wallets SET balance = ${(row?.balance ?? 0) + 1} WHERE id = ${id}`
}
