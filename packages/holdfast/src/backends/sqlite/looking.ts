/** What is only read: what a sleeper may be woken for, one lock, and a listing in pages. */
import { prepared, type SqliteDatabase, type SqliteRow } from '../../clients/sqlite.ts'
import type { LockInfo } from '../../core/backend.ts'
import type { Queue } from './queue.ts'
import type { Entry, Records } from './records.ts'
import type { Looks } from './wake-ups.ts'

const PAGE = 100

export class SqliteLooks implements Looks {
  readonly #records: Records
  readonly #queue: Queue
  readonly #version: ReturnType<typeof prepared>
  readonly #free: ReturnType<typeof prepared>

  constructor(db: SqliteDatabase, p: string, records: Records, queue: Queue) {
    this.#records = records
    this.#queue = queue
    this.#version = prepared(db, 'PRAGMA data_version')
    this.#free = prepared(
      db,
      `SELECT value AS lock_name,
        EXISTS (SELECT 1 FROM ${p}queue WHERE lock_name = value) AS is_queued FROM json_each(?)
        WHERE NOT EXISTS (SELECT 1 FROM ${p}locks WHERE lock_name = value AND ends_at_ms > ?)`,
    )
  }

  version(): number {
    return Number((this.#version.get() as SqliteRow)['data_version'])
  }

  free(names: readonly string[]): { ours: string[]; others: string[] } {
    const rows = this.#free.all(JSON.stringify(names), this.#records.nowMs()) as SqliteRow[]
    const ours: string[] = []
    const others: string[] = []
    for (const row of rows) {
      const lockName = String(row['lock_name'])
      const first = row['is_queued'] ? this.#queue.look(lockName) : null
      const side = first === null || first.isOurs ? ours : others
      side.push(lockName)
    }
    return { ours, others }
  }
}

/**
 * Walks the held names that begin with `prefix`, a page at a time, with nothing kept open in between:
 * a name that is taken or freed meanwhile may be shown or not.
 *
 * @param read Runs a read of the tables.
 */
export async function* listed(
  prefix: string,
  limit: number,
  read: <T>(fn: (records: Records) => T) => Promise<T>,
): AsyncGenerator<LockInfo, void, undefined> {
  let left = limit
  let from = prefix
  let isAfter = false
  while (left > 0) {
    const count = Math.min(left, PAGE)
    const page = await read((records) =>
      records.page(from, isAfter, count).map((entry) => ({ entry, info: records.infoOf(entry) })),
    )
    for (const { entry, info } of page) {
      // By the order of bytes all names with the prefix stand together.
      if (!entry.lockName.startsWith(prefix)) return
      yield info
    }
    const last: Entry | undefined = page.at(-1)?.entry
    if (last === undefined || page.length < count) return
    from = last.lockName
    isAfter = true
    left -= page.length
  }
}
