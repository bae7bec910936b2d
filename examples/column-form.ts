/** One row that carries the fence itself: written in one statement, without a claim. */
import { randomUUID } from 'node:crypto'
import { postgresGuard } from 'holdfast/guards/postgres'
import { Pool } from 'pg'
import { connectRedis, locksOn } from './support/connect.ts'
import { createWallets } from './support/wallets.ts'

await createWallets()
const redis = await connectRedis()
const locks = locksOn(redis)

// #region columns
const pool = new Pool()
const guard = postgresGuard(pool)
await pool.query(guard.ddlFor('wallets')) // Five columns and a check; it may run again.
// #endregion

const first = await locks.acquire('wallet:42')

// #region update
const result = await guard.update(first, {
  table: 'wallets',
  where: { id: 42 }, // A primary key, or another unique one: two rows are an error.
  set: { balance: 250 },
})
console.log(result) // 'applied', 'already-applied' or 'missing-row'
// #endregion

// #region op
const op = randomUUID() // One name for one call, and for its repeats.
const write = { table: 'wallets', where: { id: 42 }, set: { balance: 300 }, op }
console.log(await guard.update(first, write)) // applied
console.log(await guard.update(first, write)) // already-applied
// #endregion

await first.release()
const second = await locks.acquire('wallet:42')
await guard.update(second, { table: 'wallets', where: { id: 42 }, set: { balance: 1 } })

// The first holder wakes up, and presents what it had.
const { lockName, fencingToken, owner, source } = first
const late = { lockName, fencingToken, owner, source }
await guard
  .update(late, { table: 'wallets', where: { id: 42 }, set: { balance: 999 } })
  .catch((error) => console.log(error.code))

await guard.migrate()

// #region inside
// As a part of a guarded transaction, which claims first: what it read is safe to build on.
await guard.transaction(second, async (tx) => {
  const { rows } = await tx.query<{ balance: number }>('select balance from wallets where id = 42')
  const set = { balance: (rows[0]?.balance ?? 0) + 1 }
  await guard.update(second, { table: 'wallets', where: { id: 42 }, set }, tx)
})
// #endregion

const { rows } = await pool.query('select balance from wallets where id = 42')
console.log(`balance ${rows[0].balance}`)
await locks.close()
await Promise.all([redis.quit(), pool.end()])
