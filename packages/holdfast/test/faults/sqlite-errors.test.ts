/** Files that are damaged, full, read-only, locked by others, or no databases at all. */
import {
  chmodSync,
  closeSync,
  mkdtempSync,
  openSync,
  readSync,
  rmSync,
  writeFileSync,
  writeSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { sqliteBackendWith } from '../../src/backends/sqlite/sqlite-backend.ts'
import type { SqliteDatabase } from '../../src/clients/sqlite.ts'
import type { Backend } from '../../src/core/backend.ts'
import { systemSeams } from '../../src/core/seams.ts'
import { createLocks } from '../../src/lock/lock.ts'
import { acquired, request } from '../../src/testkit/backend-harness.ts'
import { openChildren } from '../support/child.ts'
import { childDrivers, childHead } from '../support/sqlite-child.ts'
import { type OpenDatabase, sqliteDrivers } from '../support/sqlite-drivers.ts'
import { openRemote } from '../support/sqlite-remote.ts'

const PAGE_BYTES = 4096
const TIMEOUT_MS = 400
const PATIENCE = { timeout: 20_000 }
/** Of one call that waits for a lock, SQLite's own waiting; what holds the event loop. */
const BUSY_MS_MAX = 5

describe.each(sqliteDrivers())('a lock file, opened with $name,', (driver) => {
  let root: string
  let file: string
  const ends: (() => unknown)[] = []

  beforeEach(() => {
    root = mkdtempSync(join(tmpdir(), 'holdfast-file-'))
    file = join(root, 'locks.db')
  })

  afterEach(async () => {
    for (const end of ends.splice(0).reverse()) await end()
    rmSync(root, { recursive: true, force: true })
  })

  function open(settings?: { readOnly: boolean }): OpenDatabase {
    const db = driver.open(file, settings)
    ends.push(() => db.close())
    return db
  }

  function backendOn(db: SqliteDatabase): Backend {
    const backend = sqliteBackendWith(systemSeams, db)
    ends.push(() => backend.close())
    return backend
  }

  /** Of a call that must fail. */
  const failure = (call: Promise<unknown>): Promise<unknown> =>
    call.then(
      (value) => ({ value }),
      (error: unknown) => error,
    )

  const soon = { timeoutMs: TIMEOUT_MS }
  const unavailable = (why: string, words: RegExp) =>
    expect.objectContaining({
      code: 'BACKEND_UNAVAILABLE',
      why,
      message: expect.stringMatching(words),
    })

  // Another program's file by a wrong path must be neither used nor changed.
  it('that is no database is refused and left as it is', async () => {
    const text = 'name: holdfast\n'.repeat(1000)
    writeFileSync(file, text)
    const backend = backendOn(open())
    expect(await failure(backend.tryAcquire(request('k', soon)))).toEqual(
      unavailable('down', /no SQLite database/),
    )
    expect(bytesAt(file, 0, text.length).toString()).toBe(text)
  })

  it('whose table is damaged grants nothing, and serves again when it is repaired', async () => {
    const before = driver.open(file)
    const first = sqliteBackendWith(systemSeams, before)
    for (let index = 0; index < 200; index++) await acquired(first, `name ${index}`)
    const root = before.prepare(ROOT_OF_LOCKS).get() as { rootpage: number }
    await first.close()
    before.close()
    const at = (Number(root.rootpage) - 1) * PAGE_BYTES
    const page = bytesAt(file, at, PAGE_BYTES)
    writeAt(file, at, Buffer.alloc(PAGE_BYTES, 0xa5))
    const damaged = backendOn(open())
    expect(await failure(damaged.tryAcquire(request('name 7', soon)))).toEqual(
      unavailable('down', /damaged/),
    )
    expect(await failure(damaged.tryAcquire(request('fresh', soon)))).toEqual(
      unavailable('down', /damaged/),
    )
    writeAt(file, at, page)
    const repaired = backendOn(open())
    expect((await repaired.tryAcquire(request('name 7', soon))).kind).toBe('held')
    expect((await repaired.tryAcquire(request('fresh', soon))).kind).toBe('granted')
  })

  it('that the connection may only read is refused with that reason, before and after set-up', async () => {
    const db = open()
    const holder = await acquired(backendOn(db), 'k')
    const reader = backendOn(open({ readOnly: true }))
    const readOnly = unavailable('read-only', /read-only/)
    expect(await failure(reader.tryAcquire(request('other', soon)))).toEqual(readOnly)
    // What writes nothing is answered all the same, or refused by the same reason; never wrong.
    expect(await failure(reader.release(holder, 0))).toEqual(readOnly)
    const later = open()
    const backend = backendOn(later)
    await acquired(backend, 'mine')
    later.exec('PRAGMA query_only = 1')
    expect(await failure(backend.tryAcquire(request('other', soon)))).toEqual(readOnly)
    expect(await failure(backend.renew(holder, 60_000))).toEqual(readOnly)
    later.exec('PRAGMA query_only = 0')
    expect((await backend.tryAcquire(request('other', soon))).kind).toBe('granted')
  })

  // B051: a store that is full looks like a lock that is held, and releases fail unnoticed.
  it('that is full refuses new locks, releases old ones, and serves again with more room', async () => {
    const db = open()
    const backend = backendOn(db)
    const held = await acquired(backend, 'first')
    const pages = (db.prepare('PRAGMA page_count').get() as { page_count: number }).page_count
    db.prepare(`PRAGMA max_page_count = ${pages}`).get()
    const full = await fillUp(backend)
    expect(full.error).toEqual(unavailable('out-of-memory', /full|max_page_count/))
    expect(await backend.inspect(full.lockName)).toBeNull()
    expect((await backend.renew(held, 120_000)).kind).toBe('renewed')
    expect(await backend.release(held, 0)).toBe('released')
    db.prepare('PRAGMA max_page_count = 100000').get()
    expect((await backend.tryAcquire(request(full.lockName, soon))).kind).toBe('granted')
  })

  // A backup tool, a person in a shell: whoever keeps a transaction open keeps everybody out.
  it('that a foreign program keeps locked is given up in time, and the event loop is not held', async () => {
    const db = open()
    const seen = watched(db)
    const backend = backendOn(seen.db)
    await acquired(backend, 'first')
    const foreign = open()
    foreign.exec('BEGIN EXCLUSIVE')
    seen.tries.length = 0
    let turns = 0
    const timer = setInterval(() => {
      turns += 1
    }, 1)
    const startedMs = performance.now()
    const error = await failure(backend.tryAcquire(request('k', soon)))
    const waitedMs = performance.now() - startedMs
    clearInterval(timer)
    expect(error).toEqual(unavailable('down', /locked/))
    // Generous upwards: the machine may be busy.
    expect(waitedMs).toBeGreaterThan(TIMEOUT_MS * 0.5)
    expect(waitedMs).toBeLessThan(TIMEOUT_MS + 5000)
    // Between two tries the event loop turns, and no try waits inside of SQLite for longer.
    expect(seen.tries.length).toBeGreaterThan(3)
    expect(turns).toBeGreaterThan(seen.tries.length / 4)
    expect(Math.max(...seen.tries)).toBeLessThanOrEqual(BUSY_MS_MAX)
    foreign.exec('ROLLBACK')
    expect((await backend.tryAcquire(request('k', soon))).kind).toBe('granted')
  })

  // B034: somebody deletes the row of a lock to free it, and the name cannot be had any more; or its
  // tokens begin anew, and every guard refuses them.
  it('whose rows somebody deletes gives the name again, with a larger token, or says what is missing', async () => {
    const [backend, somebody] = [backendOn(open()), open()]
    const before = await acquired(backend, 'k')
    somebody.exec('DELETE FROM holdfast_locks')
    const after = await acquired(backend, 'k')
    expect(after.fencingToken).toBeGreaterThan(before.fencingToken)
    expect(await backend.renew(before, 60_000)).toEqual({ kind: 'lost', reason: 'superseded' })
    expect(await backend.release(after, 0)).toBe('released')
    somebody.exec('CREATE TABLE kept AS SELECT * FROM holdfast_meta; DELETE FROM holdfast_meta')
    const missing = unavailable('down', /the row of facts/)
    expect(await failure(backend.tryAcquire(request('k', soon)))).toEqual(missing)
    expect(await failure(backend.raise('k', 2n ** 60n))).toEqual(missing)
    somebody.exec('INSERT INTO holdfast_meta SELECT * FROM kept')
    expect((await acquired(backend, 'k')).fencingToken).toBeGreaterThan(after.fencingToken)
  })

  // B050: "no answer within 2000 ms" would send its reader to the network; the engine's clock ran out in
  // the same moment as the store's.
  it('that a foreign program keeps locked is told as that to callers of locks', async () => {
    const locks = createLocks(backendOn(open()))
    const held = await locks.acquire('held', { renew: false })
    const foreign = open()
    foreign.exec('BEGIN EXCLUSIVE')
    const locked = unavailable('down', /another connection keeps the database locked/)
    // Those that stand behind it on the connection too: they would be told of a backlog.
    const asks = ['k', 'l', 'm'].map((name) => failure(locks.tryAcquire(name)))
    expect(await Promise.all(asks)).toEqual([locked, locked, locked])
    expect(await failure(held.release())).toEqual(locked)
    foreign.exec('ROLLBACK')
    await locks.using('k', { waitMs: 10_000 }, async () => undefined)
    await locks.close()
  })

  it('that a foreign program keeps locked still tells at the first ask that a name is held', async () => {
    await acquired(backendOn(open()), 'held')
    const [asking, foreign] = [backendOn(open()), open()]
    await acquired(asking, 'another')
    foreign.exec('BEGIN EXCLUSIVE')
    const answer = await asking.tryAcquire(request('held', soon))
    expect(answer).toMatchObject({ kind: 'held', holder: { pid: process.pid } })
    foreign.exec('ROLLBACK')
  })

  // B024: one renewal fails, and a lock is lost that could have been kept.
  it('that others keep locked for a part of the TTL costs no lease', async () => {
    const locks = createLocks(backendOn(open()))
    const failures: unknown[] = []
    locks.on('renewal-failed', (event) => failures.push(event))
    const lease = await locks.acquire('k', { ttlMs: 15_000, renewEveryMs: 1000 })
    const foreign = open()
    foreign.exec('BEGIN EXCLUSIVE')
    await expect.poll(() => failures.length, PATIENCE).toBeGreaterThan(0)
    foreign.exec('ROLLBACK')
    const token = lease.fencingToken
    // More than was left when the renewal failed.
    await expect.poll(() => lease.remainingMs(), PATIENCE).toBeGreaterThan(12_500)
    expect([lease.isHeld, lease.fencingToken]).toEqual([true, token])
    expect(await lease.release()).toBe('released')
    await locks.close()
  })

  // A transaction of the owner's own would take our statements in, and undo them later.
  it('whose connection is inside a transaction of its owner is refused, and the owner keeps it', async () => {
    const db = open()
    const backend = backendOn(db)
    await acquired(backend, 'first')
    db.exec('CREATE TABLE own (x)')
    db.exec('BEGIN; INSERT INTO own VALUES (1)')
    expect(await failure(backend.tryAcquire(request('k', soon)))).toEqual(
      unavailable('down', /transaction/),
    )
    db.exec('COMMIT')
    expect(db.prepare('SELECT count(*) AS n FROM own').get()).toEqual({ n: 1 })
    expect((await backend.tryAcquire(request('k', soon))).kind).toBe('granted')
  })

  // One driver writes nothing meanwhile, and says so with a TypeError, which ended a wait at once.
  it('on whose connection its owner steps through rows is refused, or serves', async () => {
    const db = open()
    const backend = backendOn(db)
    await acquired(backend, 'first')
    type Iterating = { iterate(): Iterator<unknown> }
    const names = db.prepare('SELECT name FROM sqlite_master') as unknown as Iterating
    const rows = names.iterate()
    rows.next()
    const asked = await failure(backend.tryAcquire(request('k', soon)))
    const expected =
      driver.name === 'node:sqlite'
        ? expect.objectContaining({ value: expect.objectContaining({ kind: 'granted' }) })
        : unavailable('down', /an iterator of its owner is open/)
    expect(asked).toEqual(expected)
    rows.return?.()
    expect((await backend.tryAcquire(request('l', soon))).kind).toBe('granted')
  })

  it('whose connection was closed is refused at once', async () => {
    const db = driver.open(file)
    const backend = backendOn(db)
    const held = await acquired(backend, 'k')
    db.close()
    const closed = unavailable('down', /closed/)
    expect(await failure(backend.tryAcquire(request('other', soon)))).toEqual(closed)
    expect(await failure(backend.release(held, 0))).toEqual(closed)
    expect(await failure(backend.inspect('k'))).toEqual(closed)
    expect((await backendOn(open()).inspect('k'))?.fencingToken).toBe(held.fencingToken)
  })

  it('whose tables were dropped is refused, not granted from nothing', async () => {
    const db = open()
    const backend = backendOn(db)
    await acquired(backend, 'k')
    db.exec('DROP TABLE holdfast_meta')
    expect(await failure(backend.tryAcquire(request('other', soon)))).toEqual(
      unavailable('down', /table/),
    )
  })
})

describe.each(childDrivers)('a lock file of $name in a folder', () => {
  // The write lock is the kernel's, and no clock ends it: a stopped process keeps it, a dead one does not.
  it('that another process keeps locked while it is stopped is refused in time, until that one ends', async () => {
    const children = await openChildren()
    const root = mkdtempSync(join(tmpdir(), 'holdfast-stopped-'))
    const head = { file: join(root, 'locks.db') }
    try {
      const remote = await openRemote(children, head)
      expect((await remote.acquire(request('first'))).word).toBe('granted')
      const text = `opened.exec('BEGIN IMMEDIATE')\nprocess.send('inside')\nsetInterval(() => {}, 1000)`
      for (const signal of ['SIGTERM', 'SIGKILL'] as const) {
        const stopped = children.run(childHead(head) + text)
        await stopped.sent('inside')
        stopped.signal('SIGSTOP')
        const asked = request(signal, { timeoutMs: TIMEOUT_MS })
        expect((await remote.acquire(asked)).word).toBe('BACKEND_UNAVAILABLE down')
        stopped.signal(signal)
        stopped.signal('SIGCONT')
        await stopped.ended
        expect((await remote.acquire(asked)).word).toBe('granted')
      }
    } finally {
      await children.remove()
      rmSync(root, { recursive: true, force: true })
    }
  })

  // The log and its index are files beside the database: a writable file alone is not enough.
  it('that may only be read is refused with that reason, and serves when it may be written', async () => {
    const children = await openChildren()
    const root = mkdtempSync(join(tmpdir(), 'holdfast-read-only-'))
    const file = join(root, 'locks.db')
    try {
      const first = await openRemote(children, { file })
      expect((await first.acquire(request('held'))).word).toBe('granted')
      first.child.signal('SIGKILL')
      await first.child.ended
      chmodSync(root, 0o555)
      const reader = await openRemote(children, { file, isOrdinaryUser: true })
      const asked = request('k', { timeoutMs: TIMEOUT_MS })
      expect((await reader.acquire(asked)).word).toBe('BACKEND_UNAVAILABLE read-only')
      chmodSync(root, 0o777)
      for (const end of ['', '-wal', '-shm']) chmodSync(file + end, 0o666)
      const writer = await openRemote(children, { file, isOrdinaryUser: true })
      expect((await writer.acquire(asked)).word).toBe('granted')
      expect((await writer.acquire(request('held'))).word).toBe('held')
    } finally {
      await children.remove()
      rmSync(root, { recursive: true, force: true })
    }
  })
})

const ROOT_OF_LOCKS = `SELECT rootpage FROM sqlite_master WHERE name = 'holdfast_locks'`

function bytesAt(file: string, at: number, length: number): Buffer {
  const bytes = Buffer.alloc(length)
  const open = openSync(file, 'r')
  readSync(open, bytes, 0, length, at)
  closeSync(open)
  return bytes
}

function writeAt(file: string, at: number, bytes: Buffer): void {
  const open = openSync(file, 'r+')
  writeSync(open, bytes, 0, bytes.length, at)
  closeSync(open)
}

/** Takes names until one is refused by an error. */
async function fillUp(backend: Backend): Promise<{ lockName: string; error: unknown }> {
  for (let index = 0; index < 1000; index++) {
    const lockName = `a long name, so that a page is soon full: ${index}`
    try {
      await backend.tryAcquire(request(lockName, { timeoutMs: TIMEOUT_MS }))
    } catch (error) {
      return { lockName, error }
    }
  }
  throw new Error('a thousand names fit into a full file')
}

/** The busy time-out of the connection at each try to get the write lock. */
function watched(real: OpenDatabase): { db: SqliteDatabase; tries: number[] } {
  const tries: number[] = []
  const db: SqliteDatabase = {
    prepare: (sql) => real.prepare(sql),
    exec(sql) {
      if (/^BEGIN/i.test(sql)) {
        tries.push((real.prepare('PRAGMA busy_timeout').get() as { timeout: number }).timeout)
      }
      return real.exec(sql)
    },
  }
  return { db, tries }
}
