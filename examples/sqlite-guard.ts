/** A guarded write to a SQLite file: no server, for the processes of one host. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import Database from 'better-sqlite3'
import { createLocks } from 'holdfast'
import { sqliteGuard } from 'holdfast/guards/sqlite'
import { sqliteBackend } from 'holdfast/sqlite'

const folder = mkdtempSync(join(tmpdir(), 'holdfast-example-'))

// #region guard
const locksFile = new Database(join(folder, 'locks.db')) // Connections of their own for both,
const db = new Database(join(folder, 'data.db')) // and here files of their own, too.
const locks = createLocks(sqliteBackend(locksFile))
const guard = sqliteGuard(db)
await guard.migrate() // Creates the guard's one table, if it is not there.
// #endregion

db.exec('create table wallets (id integer primary key, balance integer not null)')
db.exec('insert into wallets values (42, 100)')

// #region transaction
const balance = await locks.using('wallet:42', { waitMs: 5_000 }, (lease) =>
  // One transaction: begin, claim, your function, commit. `tx` is your own connection.
  guard.transaction(lease, (tx) => {
    const read = tx.prepare<[number], { balance: number }>(
      'select balance from wallets where id = ?',
    )
    const next = (read.get(42)?.balance ?? 0) + 1
    tx.prepare('update wallets set balance = ? where id = ?').run(next, 42)
    return next
  }),
)
// #endregion
console.log(`balance ${balance}`)

// #region claim
await locks.using('wallet:42', async (lease) => {
  db.exec('begin immediate')
  try {
    await guard.claim(lease, db) // Before the first read that the work depends on.
    db.prepare('update wallets set balance = balance + 1 where id = ?').run(42)
    lease.assertValid()
    db.exec('commit')
  } catch (error) {
    if (db.inTransaction) db.exec('rollback')
    throw error
  }
})
// #endregion

// #region columns
db.exec(guard.ddlFor('wallets')) // Adds what is missing of five columns and their check.
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

await first.release()
const second = await locks.acquire('wallet:42')
await guard.update(second, { table: 'wallets', where: { id: 42 }, set: { balance: 300 } })

// The first holder wakes up, and presents what it had.
const { lockName, fencingToken, owner, source } = first
const late = { lockName, fencingToken, owner, source }
await guard.claim(second)
await guard
  .transaction(late, (tx) => tx.exec('update wallets set balance = 999'))
  .catch((error) => console.log(error.code))

await locks.close()
locksFile.close()
db.close()
rmSync(folder, { recursive: true })
