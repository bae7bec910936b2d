/** Locks without a server: all processes of this host that open the file exclude each other. */
import { rmSync } from 'node:fs'
// #region locks
import Database from 'better-sqlite3'
import { createLocks } from 'holdfast'
import { sqliteBackend } from 'holdfast/sqlite'

const database = new Database('locks.db') // For the locks alone.
const locks = createLocks(sqliteBackend(database))
// #endregion

await locks.using('report:daily', async (lease) => {
  console.log(`held ${lease.lockName}`)
})

await locks.close()
database.close()
rmSync('locks.db')
