import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import {
  immediately,
  prepared,
  reading,
  type SqliteDatabase,
  type SqliteRow,
  sqliteFileOf,
} from '../../../src/clients/sqlite.ts'
import { systemSeams } from '../../../src/core/seams.ts'
import { type OpenDatabase, sqliteDrivers } from '../../support/sqlite-drivers.ts'

const within = (ms: number, isOurs = true) => ({
  untilMs: systemSeams.nowMs() + ms,
  what: 'a test',
  isOurs,
})
const PATIENCE_MS = 20_000

let folder: string
let path: string
let opened: OpenDatabase[]

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'holdfast-sqlite-'))
  path = join(folder, 'locks.db')
  opened = []
})

afterEach(() => {
  for (const db of opened) db.close()
  rmSync(folder, { recursive: true, force: true })
})

describe.each(sqliteDrivers())('$name', (driver) => {
  function open(settings: { readOnly?: boolean; bigInts?: boolean } = {}): OpenDatabase {
    const db = driver.open(path, settings)
    opened.push(db)
    return db
  }

  function table(): OpenDatabase {
    const db = open()
    db.exec('PRAGMA journal_mode = WAL; CREATE TABLE t (a INTEGER)')
    return db
  }

  function count(db: SqliteDatabase): number {
    return Number((prepared(db, 'SELECT count(*) AS n FROM t').get() as SqliteRow)['n'])
  }

  it('what a call does is there once it resolves, and not if it throws', async () => {
    const db = table()
    const add = prepared(db, 'INSERT INTO t VALUES (?)')
    const changes = await immediately(
      db,
      systemSeams,
      within(PATIENCE_MS),
      () => add.run(1).changes,
    )
    expect(Number(changes)).toBe(1)
    const failing = immediately(db, systemSeams, within(PATIENCE_MS), () => {
      add.run(2)
      throw new Error('mine')
    })
    await expect(failing).rejects.toThrow('mine')
    expect(count(open())).toBe(1)
    // A transaction that were left open would refuse the next.
    await immediately(db, systemSeams, within(PATIENCE_MS), () => add.run(3))
    expect(count(open())).toBe(2)
  })

  // B076: drivers give 64-bit integers as numbers, rounded.
  it('integers beyond 2^53 stay exact as text, whatever the connection is set to', async () => {
    table().exec('INSERT INTO t VALUES (9007199254740993)')
    for (const bigInts of [false, true]) {
      const read = prepared(open({ bigInts }), 'SELECT CAST(a AS TEXT) AS a, 7 AS b FROM t')
      expect({ ...(read.get() as SqliteRow) }).toEqual({ a: '9007199254740993', b: 7 })
    }
    const add = prepared(open(), 'INSERT INTO t VALUES (?)')
    add.run(9007199254740995n)
    const last = prepared(open(), 'SELECT CAST(max(a) AS TEXT) AS a FROM t').get() as SqliteRow
    expect(last['a']).toBe('9007199254740995')
  })

  // The program of somebody else keeps the file locked: with the drivers' own waiting the process
  // would stand still for five seconds at a time.
  it('a foreign writer neither holds the event loop nor is waited for beyond the bound', async () => {
    const [db, foreign] = [table(), open()]
    foreign.exec('BEGIN IMMEDIATE')
    // By turns and not by a clock: a machine that is slow gives few of both.
    const turnedBefore: boolean[] = []
    let hasTurned = true
    const watched = {
      prepare: (sql: string) => db.prepare(sql),
      exec: (sql: string) => {
        if (sql === 'BEGIN IMMEDIATE') {
          turnedBefore.push(hasTurned)
          hasTurned = false
          setImmediate(() => {
            hasTurned = true
          })
        }
        return db.exec(sql)
      },
    }
    const startedAtMs = systemSeams.nowMs()
    const refused = await immediately(watched, systemSeams, within(400), () => 1).catch((e) => e)
    expect(refused).toMatchObject({ code: 'BACKEND_UNAVAILABLE', why: 'down' })
    expect(refused.message).toContain('another connection keeps the database locked')
    expect(systemSeams.nowMs() - startedAtMs).toBeLessThan(PATIENCE_MS)
    expect(turnedBefore.length).toBeGreaterThan(1)
    expect(turnedBefore).not.toContain(false)
  })

  it('a call goes on as soon as a foreign writer has ended', async () => {
    const [db, foreign] = [table(), open()]
    foreign.exec('BEGIN IMMEDIATE')
    const add = prepared(db, 'INSERT INTO t VALUES (1)')
    const pending = immediately(db, systemSeams, within(PATIENCE_MS), () => add.run())
    await new Promise((resolve) => setTimeout(resolve, 50))
    foreign.exec('COMMIT')
    await pending
    expect(count(foreign)).toBe(1)
  })

  // Sequential calls never leave the microtask queue: no timer, no renewal, no socket would be served.
  it('timers run while calls follow each other without a pause', async () => {
    const db = table()
    const add = prepared(db, 'INSERT INTO t VALUES (1)')
    let ticks = 0
    const timer = setInterval(() => {
      ticks += 1
    }, 1)
    // Where they do not run they never do, however long it takes.
    const untilMs = systemSeams.nowMs() + PATIENCE_MS
    while (ticks < 5 && systemSeams.nowMs() < untilMs) {
      await immediately(db, systemSeams, within(PATIENCE_MS), () => add.run())
    }
    clearInterval(timer)
    expect(ticks).toBeGreaterThanOrEqual(5)
  })

  it('calls on one connection take turns in the order in which they came', async () => {
    const [db, foreign] = [table(), open()]
    foreign.exec('BEGIN IMMEDIATE')
    const order: number[] = []
    const calls = Array.from({ length: 20 }, (_, index) =>
      immediately(db, systemSeams, within(PATIENCE_MS), () => order.push(index)),
    )
    await new Promise((resolve) => setTimeout(resolve, 20))
    foreign.exec('ROLLBACK')
    await Promise.all(calls)
    expect(order).toEqual(Array.from({ length: 20 }, (_, index) => index))
  })

  it('a call that had no turn in its time is not made', async () => {
    const db = table()
    const late = { untilMs: systemSeams.nowMs() - 1, what: 'a test', isOurs: true }
    const refused = await immediately(db, systemSeams, late, () => {
      throw new Error('it ran')
    }).catch((error) => error)
    expect(refused).toMatchObject({ code: 'BACKEND_UNAVAILABLE', why: 'backlog' })
  })

  it('a commit that readers refuse is repeated as a whole, and ends without a transaction', async () => {
    const [db, reader] = [open(), open()]
    db.exec('CREATE TABLE t (a INTEGER); INSERT INTO t VALUES (1)')
    reader.exec('BEGIN')
    expect(count(reader)).toBe(1)
    let runs = 0
    const add = prepared(db, 'INSERT INTO t VALUES (2)')
    const work = (): void => {
      runs += 1
      add.run()
    }
    const refused = await immediately(db, systemSeams, within(200), work).catch((error) => error)
    expect(refused).toMatchObject({ code: 'BACKEND_UNAVAILABLE', why: 'down' })
    expect(runs).toBeGreaterThan(1)
    reader.exec('COMMIT')
    await immediately(db, systemSeams, within(PATIENCE_MS), work)
    expect(count(reader)).toBe(2)
  })

  it('the busy time-out of a connection that is not ours is put back', async () => {
    const db = table()
    db.exec('PRAGMA busy_timeout = 1234')
    const timeout = (): unknown =>
      Number((prepared(db, 'PRAGMA busy_timeout').get() as SqliteRow)['timeout'])
    await immediately(db, systemSeams, within(PATIENCE_MS, false), () => {
      expect(timeout()).toBeLessThan(10)
    })
    expect(timeout()).toBe(1234)
    await reading(db, systemSeams, within(PATIENCE_MS), () => undefined)
    expect(timeout()).toBeLessThan(10)
  })

  // The level left at NORMAL: what the owner writes next, or a grant, would not survive a power cut.
  it.each([
    ['FULL', 2],
    ['EXTRA', 3],
    ['OFF', 0],
  ])(
    'only what is of this boot does not wait for the disk, and %s is put back',
    async (name, level) => {
      const db = table()
      db.exec(`PRAGMA synchronous = ${name}`)
      const read = (): number =>
        Number((prepared(db, 'PRAGMA synchronous').get() as SqliteRow)['synchronous'])
      const ofThisBoot = { ...within(PATIENCE_MS), isOfThisBoot: true }

      expect(await immediately(db, systemSeams, within(PATIENCE_MS), read)).toBe(level)
      expect(await immediately(db, systemSeams, ofThisBoot, read)).toBe(Math.min(level, 1))
      expect(read()).toBe(level)
      const failing = immediately(db, systemSeams, ofThisBoot, () => {
        throw new Error('mine')
      })
      await expect(failing).rejects.toThrow('mine')
      expect(read()).toBe(level)
      // A transaction of the owner, who is told so, and whose level stays.
      db.exec('BEGIN')
      await expect(immediately(db, systemSeams, ofThisBoot, read)).rejects.toThrow('a transaction')
      db.exec('COMMIT')
      expect(read()).toBe(level)
    },
  )

  it('what cannot be written says why, and leaves nothing behind', async () => {
    const db = table()
    const small = prepared(db, 'INSERT INTO t VALUES (randomblob(100000))')
    db.exec('PRAGMA max_page_count = 3')
    const full = await immediately(db, systemSeams, within(200), () => small.run()).catch((e) => e)
    expect(full).toMatchObject({ code: 'BACKEND_UNAVAILABLE', why: 'out-of-memory' })
    expect(count(db)).toBe(0)
    const readOnly = open({ readOnly: true })
    const refused = await immediately(readOnly, systemSeams, within(200), () =>
      readOnly.exec('INSERT INTO t VALUES (1)'),
    ).catch((e) => e)
    expect(refused).toMatchObject({ code: 'BACKEND_UNAVAILABLE', why: 'read-only' })
    const missing: Error = await immediately(db, systemSeams, within(200), () => {
      db.exec('SELECT * FROM absent')
      return new Error('it was found')
    }).catch((e) => e)
    expect(missing).toMatchObject({ code: 'BACKEND_UNAVAILABLE', why: 'down' })
    expect(missing.message).toContain('a table is missing')
  })

  it('a file that is no database, a transaction of the owner and a closed one have each their words', async () => {
    const db = table()
    db.exec('BEGIN')
    const inside = await immediately(db, systemSeams, within(200), () => 1).catch((e) => e)
    expect(inside.message).toContain('locks need one of their own')
    db.close()
    opened.pop()
    const closed = await immediately(db, systemSeams, within(200), () => 1).catch((e) => e)
    expect(closed).toMatchObject({ code: 'BACKEND_UNAVAILABLE', why: 'down' })
    expect(closed.message).toContain('was closed')
    expect(() => sqliteFileOf(db)).toThrow('the database was closed')
    writeFileSync(
      join(folder, 'text.db'),
      'not a database, though long enough to be read as one '.repeat(99),
    )
    const text = driver.open(join(folder, 'text.db'))
    opened.push(text)
    const garbage = await reading(text, systemSeams, within(200), () =>
      prepared(text, 'SELECT * FROM sqlite_master').all(),
    ).catch((e) => e)
    expect(garbage.message).toContain('no SQLite database')
  })

  it('the file of a database is known, and one without a file has none', () => {
    expect(sqliteFileOf(open())).toBe(path)
    const memory = driver.open(':memory:')
    opened.push(memory)
    expect(sqliteFileOf(memory)).toBe('')
  })
})

// B052: an object of another kind fails at every request, and it looks like a store that is down.
it('what is no database of these drivers is refused by name', () => {
  const withCallbacks = { exec: () => undefined, prepare: () => ({ all: () => undefined }) }
  for (const given of [null, 'locks.db', {}, withCallbacks]) {
    expect(() => sqliteFileOf(given as never)).toThrow(
      /^database is .*better-sqlite3 or node:sqlite/,
    )
  }
})
