import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { sqliteBackend } from '../../src/backends/sqlite/sqlite-backend.ts'
import { GuardBusyError } from '../../src/core/errors.ts'
import type { Lease, Locks } from '../../src/index.ts'
import { createLocks } from '../../src/index.ts'
import { outcome } from '../../src/testkit/guard-suite-harness.ts'
import { type Child, type Children, moduleUrl, openChildren } from '../support/child.ts'
import { type OpenDatabase, type SqliteDriver, sqliteDrivers } from '../support/sqlite-drivers.ts'
import { type OpenSqlite, type SqliteStand, startSqliteStand } from '../support/sqlite-stand.ts'

const TTL_MS = 400
const ROUNDS = 4
/** Longer than the rest of the TTL and a busy machine's delay; short enough to wait for. */
const BOUND_MS = 1500

/** Opens a database by a driver, as text for a child. */
function openText(driver: SqliteDriver): string {
  if (driver.name === 'node:sqlite') {
    return `import { DatabaseSync } from 'node:sqlite'
const open = (path) => new DatabaseSync(path)`
  }
  const addon = process.env['HOLDFAST_BETTER_SQLITE3']
  const options = addon ? `, { nativeBinding: ${JSON.stringify(addon)} }` : ''
  return `import Database from ${moduleUrl('better-sqlite3')}
const open = (path) => new Database(path${options})`
}

/**
 * A holder that adds one to the balance. It says when it stands where the test wants it, and goes on
 * when the test says so; it ignores its signal, as one that had checked just before.
 */
function holderText(driver: SqliteDriver, locksPath: string, dataPath: string, arm: Arm): string {
  return `
${openText(driver)}
import { createLocks } from './dist/index.js'
import { sqliteBackend } from './dist/sqlite.js'
import { sqliteGuard } from './dist/guards/sqlite.js'
const locks = createLocks(sqliteBackend(open(${JSON.stringify(locksPath)})), { renew: false })
const guard = sqliteGuard(open(${JSON.stringify(dataPath)}))
const going = new Promise((resolve) => process.on('message', resolve))
const lease = await locks.acquire('wallet', { ttlMs: ${TTL_MS}, waitMs: 20000 })
const { lockName, fencingToken, owner, source } = lease
const plain = { lockName, fencingToken, owner, source }
const read = (tx) => Number(tx.prepare('SELECT balance FROM wallets').get().balance)
const write = (tx, balance) => tx.prepare('UPDATE wallets SET balance = ?').run(balance)
const stand = async () => {
  process.send('stands')
  await going
}
try {
  if (${JSON.stringify(arm)} === 'between') {
    const balance = await guard.transaction(plain, read)
    await stand()
    await guard.transaction(plain, (tx) => write(tx, balance + 1))
  } else {
    await guard.transaction(lease, async (tx) => {
      const balance = read(tx)
      write(tx, balance + 1)
      await stand()
    })
  }
  process.send('applied')
} catch (error) {
  process.send(error.code)
}
process.disconnect()
`
}

type Arm = 'between' | 'inside'

let children: Children

beforeAll(async () => {
  children = await openChildren()
})
afterAll(() => children?.remove())

for (const driver of sqliteDrivers()) {
  for (const where of ['one file', 'two files'] as const) {
    describe(`holders that are paused processes, locks and data in ${where}, by ${driver.name}`, () => {
      let data: SqliteStand
      let locksFile: SqliteStand
      let ours: OpenSqlite
      let locks: Locks

      beforeEach(async () => {
        data = await startSqliteStand(driver)
        locksFile = where === 'one file' ? data : await startSqliteStand(driver)
        ours = await data.open({ timeoutMs: BOUND_MS })
        ours.db.exec('CREATE TABLE wallets (balance INTEGER); INSERT INTO wallets VALUES (0)')
        locks = createLocks(sqliteBackend(locksFile.connect()))
      })
      afterEach(async () => {
        await locks.close()
        data.stop()
        locksFile.stop()
      })

      const balance = (): unknown =>
        (ours.other.prepare('SELECT balance FROM wallets').get() as Record<string, unknown>)[
          'balance'
        ]
      const addOne = (tx: OpenDatabase): unknown =>
        tx.exec('UPDATE wallets SET balance = balance + 1')

      /** A process that holds the lock and stands still, and is then stopped. */
      const stopped = async (arm: Arm): Promise<Child> => {
        const child = children.run(holderText(driver, locksFile.path, data.path, arm))
        await child.sent('stands')
        child.signal('SIGSTOP')
        return child
      }

      const goesOn = async (child: Child): Promise<unknown> => {
        child.send('go')
        child.signal('SIGCONT')
        await child.ended
        return child.messages.at(-1)
      }

      const takeOver = (): Promise<Lease> => locks.acquire('wallet', { waitMs: 20_000 })

      // B096. It read, was stopped, and wrote what it had counted over what the next holder wrote.
      it('one that was stopped between reading and writing is refused', async () => {
        for (let round = 1; round <= ROUNDS; round++) {
          const child = await stopped('between')
          const lease = await takeOver()
          await ours.guard.transaction(lease, addOne)
          expect(await goesOn(child)).toBe('STALE_TOKEN')
          expect(balance()).toBe(round)
          await lease.release()
        }
      })

      // No server ends its transaction. The next holder waits no longer than it may, and when the other
      // goes on, its lease is over: nothing of it is applied.
      it('one that was stopped inside keeps others waiting, in bounds, and is not applied', async () => {
        const child = await stopped('inside')
        // In one file it keeps the lock table too: nobody can even ask.
        const lease = where === 'one file' ? null : await takeOver()
        const owner = 'a-owner-of-the-suite_1'
        const { fencingToken, source } = lease ?? { fencingToken: 2n ** 62n, source: 'another' }
        const next = { lockName: 'wallet', fencingToken, owner: lease?.owner ?? owner, source }
        const waited = await outcome(ours.guard.transaction(next, addOne))
        expect(waited.status === 'rejected' && waited.reason).toBeInstanceOf(GuardBusyError)
        expect(await goesOn(child)).toBe('LEASE_LOST')
        expect(balance()).toBe(0)
        await ours.guard.transaction(lease ?? (await takeOver()), addOne)
        expect(balance()).toBe(1)
      })

      it('one that is killed inside leaves nothing behind', async () => {
        const child = await stopped('inside')
        child.signal('SIGKILL')
        await child.ended
        expect(balance()).toBe(0)
        await ours.guard.transaction(await takeOver(), addOne)
        expect(balance()).toBe(1)
      })
    })
  }
}
