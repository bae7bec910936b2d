/**
 * Files of SQLite and no server: one file with the locks, one with the data, as two programs with
 * stores of their own have them.
 */
import { join } from 'node:path'
import { createLocks } from 'holdfast'
import { type SqliteGuard, sqliteGuard } from 'holdfast/guards/sqlite'
import { sqliteBackend } from 'holdfast/sqlite'
import type { Addresses } from '../../scenario.ts'
import type { DataGuard, DataStores, Ground, LockStores, WalletStores } from './ground.ts'
import { openHandLocks } from './hand-locks.ts'
import { handEntry, lockEntry, lockFileIn } from './lock-file.ts'
import { databaseOn, openFile, queryableOn } from './sqlite-database.ts'
import type { OpenDatabase } from './sqlite-driver.ts'
import { warmUp } from './warm-up.ts'

export const embedded: Ground = {
  kind: 'embedded',
  serversFor: { locks: [], wallets: [] },
  openLocks,
  openWallets,
  openData,
}

async function openLocks(addresses: Addresses, role: string): Promise<LockStores> {
  const path = lockFileIn(addresses)
  const [ofHolder, byHand] = [openFile(path, role), openFile(path, role)]
  const locks = createLocks(sqliteBackend(ofHolder))
  await warmUp(locks)
  const db = databaseOn(byHand)
  return {
    locks,
    byHand: await openHandLocks(db),
    entryOf: async (name) => {
      const entry = (await handEntry(db, name)) ?? (await lockEntry(db, name))
      return entry?.owner ?? ''
    },
    close: async () => {
      await locks.close()
      for (const one of [ofHolder, byHand]) one.close()
    },
  }
}

async function openWallets(addresses: Addresses, role: string): Promise<WalletStores> {
  const data = await openData(addresses, role)
  const file = openFile(lockFileIn(addresses), role)
  const locks = createLocks(sqliteBackend(file))
  if (role !== 'lab') await warmUp(locks, data.guard)
  const close = async (): Promise<void> => {
    await locks.close()
    file.close()
    await data.close()
  }
  return { ...data, locks, close }
}

/** The guard has a connection of its own, so that no other statement falls into its transactions. */
async function openData({ sqlite }: Addresses, role: string): Promise<DataStores> {
  if (sqlite === undefined) throw new Error('this scenario needs a folder for its files')
  const path = join(sqlite.folder, 'data.db')
  const [plain, guarded] = [openFile(path, role), openFile(path, role)]
  const close = async (): Promise<void> => {
    for (const one of [plain, guarded]) one.close()
  }
  return { db: databaseOn(plain), guard: guardOf(sqliteGuard(guarded)), close }
}

function guardOf(guard: SqliteGuard<OpenDatabase>): DataGuard {
  return {
    claim: (fenced) => guard.claim(fenced),
    transaction: (fenced, act) => guard.transaction(fenced, (tx) => act(queryableOn(tx))),
    update: (fenced, change) => guard.update(fenced, change),
    migrate: () => guard.migrate(),
    ddlFor: (table) => guard.ddlFor(table),
  }
}
