/** What is only read: what a sleeper may be woken for, one lock, and a listing in pages. */
import { prepared, type SqliteDatabase, type SqliteRow } from '../../clients/sqlite.ts'
import type { LockInfo } from '../../core/backend.ts'
import type { Host } from './host.ts'
import type { Queue } from './queue.ts'
import type { Entry, Records } from './records.ts'
import type { Free, Looks } from './wake-ups.ts'

const PAGE = 100
/**
 * More before ours are not counted: it is long until our turn. A place of another thread of this process
 * counts as ours, and then we look too often.
 */
const AHEAD_MAX = 16

export class SqliteLooks implements Looks {
  readonly #host: Host
  readonly #records: Records
  readonly #queue: Queue
  readonly #version: ReturnType<typeof prepared>
  readonly #free: ReturnType<typeof prepared>

  constructor(db: SqliteDatabase, p: string, host: Host, records: Records, queue: Queue) {
    this.#host = host
    this.#records = records
    this.#queue = queue
    this.#version = prepared(db, 'PRAGMA data_version')
    this.#free = prepared(
      db,
      `SELECT value AS lock_name,
        (SELECT ends_at_ms FROM ${p}locks WHERE lock_name = value AND ends_at_ms > ?) AS ends_at_ms,
        EXISTS (SELECT 1 FROM ${p}queue WHERE lock_name = value) AS is_queued,
        (SELECT count(*) FROM (SELECT 1 FROM ${p}queue WHERE lock_name = value AND place <
          (SELECT min(place) FROM ${p}queue WHERE lock_name = value AND pid = ? AND pid_namespace = ?)
          LIMIT ${AHEAD_MAX})) AS ahead FROM json_each(?)`,
    )
  }

  version(): number {
    return Number((this.#version.get() as SqliteRow)['data_version'])
  }

  free(names: readonly string[]): Free {
    const nowMs = this.#records.nowMs()
    const { pid, pidNamespace } = this.#host
    const asked = JSON.stringify(names)
    const rows = this.#free.all(nowMs, pid, pidNamespace, asked) as SqliteRow[]
    const ours: string[] = []
    const others: string[] = []
    let endsInMs = Number.POSITIVE_INFINITY
    let ahead = AHEAD_MAX
    for (const row of rows) {
      ahead = Math.min(ahead, Number(row['ahead']))
      if (row['ends_at_ms'] !== null) {
        endsInMs = Math.min(endsInMs, Number(row['ends_at_ms']) - nowMs)
        continue
      }
      const lockName = String(row['lock_name'])
      const first = row['is_queued'] ? this.#queue.look(lockName) : null
      const side = first === null || first.isOurs ? ours : others
      side.push(lockName)
    }
    return { ours, others, endsInMs, ahead }
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
