/** The tables: how they are made, by several processes at once, and how a file of another version is told. */
import {
  immediately,
  prepared,
  reading,
  type SqliteBounds,
  type SqliteDatabase,
  type SqliteRow,
} from '../../clients/sqlite.ts'
import { BackendUnavailableError, InvalidArgumentError } from '../../core/errors.ts'
import type { Seams } from '../../core/seams.ts'
import { type Host, hasBootClock } from './host.ts'
import type { SqliteSettings } from './options.ts'

/** Raised when the tables change; a program finds a larger one and leaves the file alone. */
const SCHEMA_VERSION = 1

/** See docs/wire.md. */
export function ddl(p: string): string {
  return `
CREATE TABLE ${p}meta (
  id INTEGER PRIMARY KEY CHECK (id = 1),
  store TEXT NOT NULL,
  schema_version INTEGER NOT NULL,
  counter INTEGER NOT NULL,
  boot_id TEXT NOT NULL,
  clock_id TEXT NOT NULL,
  swept_to TEXT NOT NULL
) STRICT;
CREATE TABLE ${p}locks (
  lock_name TEXT PRIMARY KEY,
  owner TEXT,
  fencing_token INTEGER NOT NULL CHECK (fencing_token > 0),
  ends_at_ms INTEGER NOT NULL,
  since_at_ms INTEGER NOT NULL,
  lock_delay_ms INTEGER NOT NULL,
  revoked_owner TEXT,
  holder TEXT
) STRICT, WITHOUT ROWID;
CREATE TABLE ${p}queue (
  place INTEGER PRIMARY KEY,
  lock_name TEXT NOT NULL,
  waiter TEXT NOT NULL,
  pid INTEGER NOT NULL,
  started_at TEXT NOT NULL,
  pid_namespace TEXT NOT NULL,
  ends_at_ms INTEGER NOT NULL,
  UNIQUE (lock_name, waiter)
) STRICT;
CREATE INDEX ${p}queue_ends ON ${p}queue (ends_at_ms);
CREATE TABLE ${p}cancelled (
  place INTEGER PRIMARY KEY,
  owner TEXT NOT NULL UNIQUE,
  ends_at_ms INTEGER NOT NULL
) STRICT;`
}

/** Sets the connection up, makes the tables if they are missing, and gives the id of the file. */
export async function openTables(
  db: SqliteDatabase,
  seams: Seams,
  bounds: SqliteBounds,
  settings: SqliteSettings,
  host: Host,
): Promise<string> {
  await reading(db, seams, bounds, () => setUp(db, settings))
  const { tablePrefix } = settings
  const found = await reading(db, seams, bounds, () => storeOf(db, tablePrefix, host))
  if (found !== null) return found
  return immediately(db, seams, bounds, () => {
    const made = storeOf(db, tablePrefix, host)
    if (made !== null) return made
    if (!hasTable(db, `${tablePrefix}meta`)) {
      db.exec(ddl(tablePrefix))
      prepared(db, `INSERT INTO ${tablePrefix}meta VALUES (1, ?, ?, 0, ?, ?, '')`).run(
        seams.nonce(),
        SCHEMA_VERSION,
        host.bootId,
        host.clockId,
      )
    } else {
      beginBoot(db, tablePrefix, host)
    }
    const store = storeOf(db, tablePrefix, host)
    if (store === null) throw new BackendUnavailableError('down', 'the tables of locks do not stay')
    return store
  })
}

/** Whatever an earlier boot left behind is over, and its times mean nothing now. */
function beginBoot(db: SqliteDatabase, p: string, host: Host): void {
  for (const table of ['locks', 'queue', 'cancelled']) db.exec(`DELETE FROM ${p}${table}`)
  const update = `UPDATE ${p}meta SET boot_id = ?, clock_id = ?, swept_to = ''`
  prepared(db, update).run(host.bootId, host.clockId)
}

/** Null: the tables are missing, or the first process after a boot has yet to say so. */
function storeOf(db: SqliteDatabase, p: string, host: Host): string | null {
  if (!hasTable(db, `${p}meta`)) return null
  const version = pragmaLike(db, `SELECT schema_version FROM ${p}meta`, 'schema_version')
  if (Number(version) !== SCHEMA_VERSION) {
    const allowed = `a file whose tables are of version ${SCHEMA_VERSION}, not ${version}`
    throw new InvalidArgumentError('database', `${p}meta`, allowed)
  }
  const sql = `SELECT store, boot_id, clock_id FROM ${p}meta`
  const meta = prepared(db, sql).get() as SqliteRow
  if (meta['boot_id'] !== host.bootId) return null
  if (hasBootClock(host) && meta['clock_id'] !== host.clockId) {
    const allowed = `a file whose programs count time alike; until the next boot it belongs to "${meta['clock_id']}"`
    throw new InvalidArgumentError('database', host.clockId, allowed)
  }
  return String(meta['store'])
}

/** As SQLite does: letters of either case are the same. */
function hasTable(db: SqliteDatabase, name: string): boolean {
  const sql = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ? COLLATE NOCASE"
  return prepared(db, sql).get(name) !== undefined
}

/** Each setting is read back: SQLite ignores what it cannot do. */
function setUp(db: SqliteDatabase, { synchronous }: SqliteSettings): void {
  const locking = pragmaLike(db, 'PRAGMA locking_mode', 'locking_mode')
  if (locking !== 'normal') {
    throw new InvalidArgumentError('database', locking, 'a connection whose locking_mode is normal')
  }
  const journal = pragmaLike(db, 'PRAGMA journal_mode = WAL', 'journal_mode')
  if (journal !== 'wal') {
    const allowed = 'a database that can be switched to journal_mode WAL'
    throw new InvalidArgumentError('database', journal, allowed)
  }
  const [level, least] = synchronous === 'full' ? ['FULL', 2] : ['NORMAL', 1]
  const read = (): number => Number(pragmaLike(db, 'PRAGMA synchronous', 'synchronous'))
  // Said even where it is read already: a level that is only the default falls when WAL begins, to NORMAL
  // in better-sqlite3. EXTRA is nobody's default, and more than FULL.
  if (synchronous === 'normal' || read() <= least) db.exec(`PRAGMA synchronous = ${level}`)
  // Elsewhere than on macOS it changes nothing; there fsync alone does not reach the disk.
  if (synchronous === 'full') db.exec('PRAGMA fullfsync = ON')
  if (read() < least) {
    throw new InvalidArgumentError('database', read(), `a connection with synchronous = ${level}`)
  }
}

function pragmaLike(db: SqliteDatabase, sql: string, column: string): unknown {
  return (prepared(db, sql).get() as SqliteRow | undefined)?.[column]
}
