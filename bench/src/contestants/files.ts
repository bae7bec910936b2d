/**
 * Locks of one host, in files of a folder: SQLite, by hand and ours, and proper-lockfile.
 *
 * By hand is what one writes in a SQLite file: a row for each name with owner, token and end, taken by
 * an upsert that leaves a row alone which has not ended. FULL and NORMAL are the settings of
 * `synchronous`: with FULL a grant is on the disk before it is answered. proper-lockfile makes a folder,
 * and syncs nothing.
 */
import { randomUUID } from 'node:crypto'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { createLocks } from 'holdfast'
import { sqliteBackend } from 'holdfast/sqlite'
import {
  type Contestant,
  type Locker,
  RETRIES_MAX,
  RETRY_JITTER_MS,
  RETRY_MS,
  type Release,
  TTL_MS,
  WAIT_MS,
} from '../contestant.ts'
import { holdfastLocker } from './holdfast.ts'
import { load } from './load.ts'
import { type OpenDatabase, sqliteDriver } from './sqlite-driver.ts'

type Synchronous = 'full' | 'normal'

export interface FileContestant extends Contestant<string> {
  /** Every grant waits for the disk. */
  readonly isSynced: boolean
}

/** Eight processes that open a new file are done in a moment. */
const WAL_TRIES_MAX = 500

export const PROPER_LOCKFILE = 'proper-lockfile'

/** The first one is the reference. @throws MissingDriverError */
export function fileContestants(): FileContestant[] {
  return [byHand('full'), ours('full'), byHand('normal'), ours('normal'), properLockfile]
}

function byHand(synchronous: Synchronous): FileContestant {
  const { name, open } = sqliteDriver()
  return {
    who: 'hand-written',
    variant: `with token, ${synchronous.toUpperCase()}`,
    client: name,
    isOwnerChecked: true,
    hasToken: true,
    isSynced: synchronous === 'full',
    connect: async (folder) => {
      const db = open(join(folder, `hand-written-${synchronous}.db`))
      // Others may be opening it too.
      db.exec('PRAGMA busy_timeout = 5000')
      await switchToWal(db)
      db.exec(`PRAGMA synchronous = ${synchronous}`)
      return handWrittenLocker(db)
    },
  }
}

/** The switch itself does not heed `busy_timeout`. */
async function switchToWal(db: OpenDatabase): Promise<void> {
  for (let tries = 1; ; tries++) {
    try {
      return void db.exec('PRAGMA journal_mode = WAL')
    } catch (error) {
      if (tries === WAL_TRIES_MAX) throw error
    }
    await sleep(RETRY_MS)
  }
}

function handWrittenLocker(db: OpenDatabase): Locker {
  db.exec(`CREATE TABLE IF NOT EXISTS locks (
    name TEXT PRIMARY KEY, owner TEXT NOT NULL, token INTEGER NOT NULL, ends_at INTEGER NOT NULL
  ) WITHOUT ROWID`)
  const begin = db.prepare('BEGIN IMMEDIATE')
  const take = db.prepare(`INSERT INTO locks (name, owner, token, ends_at) VALUES (?, ?, 1, ?)
    ON CONFLICT (name) DO UPDATE
      SET owner = excluded.owner, token = token + 1, ends_at = excluded.ends_at
      WHERE ends_at <= ?
    RETURNING token`)
  const commit = db.prepare('COMMIT')
  const free = db.prepare('UPDATE locks SET ends_at = 0 WHERE name = ? AND owner = ?')
  const tryAcquire = (lockName: string): Release | null => {
    const owner = randomUUID()
    const nowMs = Date.now()
    begin.run()
    const row = take.get(lockName, owner, nowMs + TTL_MS, nowMs)
    commit.run()
    if (row === undefined) return null
    return async () => {
      if (Number(free.run(lockName, owner).changes) !== 1) throw new Error(`${lockName} was lost`)
    }
  }
  return {
    acquire: (lockName) => askingAgain(lockName, () => tryAcquire(lockName)),
    close: async () => {
      db.close()
    },
  }
}

async function askingAgain(lockName: string, ask: () => Release | null): Promise<Release> {
  const endMs = performance.now() + WAIT_MS
  for (;;) {
    const release = ask()
    if (release !== null) return release
    if (performance.now() > endMs) throw new Error(`${lockName} was not granted`)
    await sleep(RETRY_MS + (2 * Math.random() - 1) * RETRY_JITTER_MS)
  }
}

function ours(synchronous: Synchronous): FileContestant {
  const { name, open } = sqliteDriver()
  return {
    who: 'holdfast',
    variant: synchronous.toUpperCase(),
    client: name,
    isOwnerChecked: true,
    hasToken: true,
    isSynced: synchronous === 'full',
    connect: async (folder) => {
      const db = open(join(folder, `holdfast-${synchronous}.db`))
      const backend = sqliteBackend(db, { synchronous })
      const locks = createLocks(backend, { ttlMs: TTL_MS, waitMs: WAIT_MS })
      return holdfastLocker(locks, () => db.close())
    },
  }
}

interface ProperLockfile {
  lock(file: string, options: object): Promise<() => Promise<void>>
}

const properLockfile: FileContestant = {
  who: PROPER_LOCKFILE,
  variant: 'no token',
  client: 'folder',
  // It removes the folder by its name, whoever made it, unless it has seen in time that it was lost.
  isOwnerChecked: false,
  hasToken: false,
  isSynced: false,
  connect: async (folder) => {
    const { lock } = await load<ProperLockfile>(PROPER_LOCKFILE)
    const retries = { retries: RETRIES_MAX, factor: 1, minTimeout: RETRY_MS, maxTimeout: RETRY_MS }
    return {
      // The file itself need not be there with `realpath: false`.
      acquire: (lockName) =>
        lock(join(folder, lockName), { realpath: false, stale: TTL_MS, retries }),
      close: async () => undefined,
    }
  },
}
