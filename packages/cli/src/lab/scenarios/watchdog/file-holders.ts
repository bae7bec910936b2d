/**
 * Who holds locks in a file of SQLite. All locks of a process go through one connection, as they do
 * in a program: what one of them waits for, the others wait for too.
 */
import { createLocks, type Locks } from 'holdfast'
import { sqliteBackend } from 'holdfast/sqlite'
import type { Job } from '../../trial.ts'
import { openHandLocks } from '../ground/hand-locks.ts'
import { databaseOn, openFile } from '../ground/sqlite-database.ts'
import type { OpenDatabase } from '../ground/sqlite-driver.ts'
import {
  type HeldLock,
  type HolderInput,
  type Holders,
  type Holding,
  holderPrograms,
  holdWithLease,
  holdWithTimer,
} from './holder.ts'
import { askInTurn } from './long-job.ts'

/** What a holder has to know to reach its store. */
export interface FileStore {
  readonly path: string
}

/** One for each file, until the last of its locks is given up. */
class Shared {
  readonly db: OpenDatabase
  readonly locks: Locks
  #users = 0

  constructor(path: string) {
    this.db = openFile(path, 'holder')
    this.locks = createLocks(sqliteBackend(this.db))
  }

  enter(): this {
    this.#users++
    return this
  }

  /** True when that was the last one. */
  leave(): boolean {
    return --this.#users === 0
  }
}

const shared = new Map<string, Shared>()

function enter({ path }: FileStore): Shared {
  const known = shared.get(path) ?? new Shared(path)
  shared.set(path, known)
  return known.enter()
}

/** A program that was told of its loss may go on with what it had asked for: the file stays open. */
function leave({ path }: FileStore, used: Shared): void {
  if (used.leave()) shared.delete(path)
}

async function holdInFile(job: Job, lock: HeldLock): Promise<Holding> {
  const store = job.input as HolderInput<FileStore>
  const used = enter(store)
  return holdWithLease(job, lock, used.locks, () => leave(store, used))
}

async function holdInFileByHand(job: Job, lock: HeldLock): Promise<Holding> {
  const store = job.input as HolderInput<FileStore>
  const used = enter(store)
  const byHand = await openHandLocks(databaseOn(used.db))
  return holdWithTimer(job, lock, {
    take: (owner) => byHand.take(lock.name, owner, store.ttlMs),
    renew: () => byHand.renew(lock.name, store.ttlMs),
    remove: () => byHand.remove(lock.name),
    close: () => leave(store, used),
  })
}

export const fileHolders: Holders = holderPrograms(holdInFile, holdInFileByHand)

export async function askAtFile(job: Job): Promise<void> {
  const { path, locks: names } = job.input as FileStore & { readonly locks: readonly HeldLock[] }
  const db = openFile(path, 'asker')
  await askInTurn(job, createLocks(sqliteBackend(db)), names)
  db.close()
}
