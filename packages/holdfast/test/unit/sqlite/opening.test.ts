import { linkSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { CLOCK_GRAIN_MS, thisHost } from '../../../src/backends/sqlite/host.ts'
import { ddl } from '../../../src/backends/sqlite/schema.ts'
import { prepared } from '../../../src/clients/sqlite.ts'
import type { Backend, Grant } from '../../../src/core/backend.ts'
import { type Seams, systemSeams } from '../../../src/core/seams.ts'
import { sqliteBackend } from '../../../src/sqlite.ts'
import { acquired, LONG_MS, request } from '../../../src/testkit/backend-harness.ts'
import { sqliteDrivers } from '../../support/sqlite-drivers.ts'
import { LockFile } from '../../support/sqlite-locks.ts'

const host = thisHost()
const rebooted = { ...host, bootId: '00000000-0000-4000-8000-000000000000' }

describe.each(sqliteDrivers())('a lock file, opened with $name,', (driver) => {
  let file: LockFile

  beforeEach(() => {
    file = new LockFile(driver)
  })

  afterEach(() => file.close())

  it('is refused before anything is asked where it is none, or an option is wrong', () => {
    const db = file.database()
    const memory = driver.open(':memory:')
    expect(() => sqliteBackend(memory)).toThrow(/^database is .* allowed: a database in a file/)
    memory.close()
    expect(() => sqliteBackend(memory)).toThrow(/^database is .*was closed/)
    const wrong = [
      { synchronous: 'off' },
      { tablePrefix: '' },
      { tablePrefix: 'sqlite_x' },
      { tablePrefix: 'a; drop table b' },
      { networkFileSystem: true },
      { busyTimeoutMs: 1 },
    ]
    for (const options of wrong) {
      const [name = ''] = Object.keys(options)
      expect(() => sqliteBackend(db, options as never)).toThrow(name)
    }
    expect(prepared(db, 'SELECT * FROM sqlite_master').all()).toEqual([])
  })

  // Each finds no tables, and all but the first would fail, or make a second counter.
  it('is made once, by however many connections at the same time', async () => {
    const grants = await Promise.all(
      Array.from({ length: 8 }, (_, index) => acquired(file.backend(), `name ${index}`)),
    )
    expect(new Set(grants.map(({ source }) => source)).size).toBe(1)
    expect(new Set(grants.map(({ fencingToken }) => fencingToken)).size).toBe(8)
    expect(file.rows('meta').length).toBe(1)
    const others = await acquired(file.backend({ tablePrefix: 'other_' }), 'name 0')
    expect(others.source).not.toBe(grants[0]?.source)
    // To SQLite it is the same name.
    const same = await acquired(file.backend({ tablePrefix: 'HOLDFAST_' }), 'name 8')
    expect(same.source).toBe(grants[0]?.source)
  })

  it('that another process makes in the same moment is taken as it is', async () => {
    const [db, other] = [file.database(), file.database()]
    let isMade = false
    const racing = {
      prepare: (sql: string) => db.prepare(sql),
      exec: (sql: string) => {
        if (sql === 'BEGIN IMMEDIATE' && !isMade) {
          isMade = true
          other.exec(ddl('holdfast_'))
          const row = "INSERT INTO holdfast_meta VALUES (1, 'theirs', 1, 5, ?, ?, '')"
          prepared(other, row).run(host.bootId, host.clockId)
        }
        return db.exec(sql)
      },
    }
    expect((await acquired(sqliteBackend(racing), 'a')).source).toBe('sqlite:theirs')
    expect(isMade).toBe(true)
  })

  // Each name has a log of its own: both granted the same lock, and the file was damaged in the end.
  it('with a hard link is refused by both names, and by a symbolic link it is the same file', async () => {
    await acquired(file.backend(), 'k')
    const [hard, soft] = [join(file.folder, 'hard.db'), join(file.folder, 'soft.db')]
    symlinkSync(file.path, soft)
    const opened = [soft, file.path].map((path) => driver.open(path))
    const [bySoft, ...others] = opened.map((db) => sqliteBackend(db))
    expect((await bySoft?.tryAcquire(request('k')))?.kind).toBe('held')
    linkSync(file.path, hard)
    const byHard = driver.open(hard)
    for (const backend of [...others, sqliteBackend(byHard)]) {
      await expect(backend.tryAcquire(request('k'))).rejects.toThrow(/without hard links/)
    }
    for (const db of [...opened, byHard]) db.close()
  })

  it('of a later version is left alone', async () => {
    await acquired(file.backend(), 'a')
    file.database().exec('UPDATE holdfast_meta SET schema_version = 2')
    const asked = file.backend().tryAcquire(request('b'))
    await expect(asked).rejects.toThrow('tables are of version 1, not 2')
    expect(file.rows('locks').length).toBe(1)
  })

  // Whatever stood in the file when the power went is over: its holders are gone with the boot.
  it('after a boot grants what was held, and to nobody of before', async () => {
    const old = file.backend()
    const grant = await acquired(old, 'a')
    await old.cancel('b', request('b').owner)
    await old.tryAcquire(request('a', { waits: true }))
    const fresh = file.backend({}, { host: rebooted })
    const next = await acquired(fresh, 'a')
    expect(next.fencingToken).toBeGreaterThan(grant.fencingToken)
    expect(next.source).toBe(grant.source)
    expect([file.rows('queue'), file.rows('cancelled')]).toEqual([[], []])
    // Two kernels at once on one file: the second to come shuts the first out, and both are told.
    await expect(old.tryAcquire(request('c'))).rejects.toMatchObject({ why: 'no-permission' })
    expect(await old.renew(grant, LONG_MS)).toMatchObject({ kind: 'lost' })
  })

  // In a container whose uptime is its own all locks of the host would look as if they had ended.
  it('is refused to a process whose uptime does not compare', async () => {
    await acquired(file.backend(), 'a')
    const apart = file.backend({}, { host: { ...host, clockId: 'time:[1]' } })
    await expect(apart.tryAcquire(request('a'))).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' })
    await expect(apart.inspect('a')).rejects.toThrow('count time alike')
  })

  // B030: after a sleep of the machine a lock that is long over still counts.
  it('ends a lock that slept through its time, and none because the wall clock is set', async () => {
    let [asleepMs, setMs] = [0, 0]
    const seams: Seams = {
      ...systemSeams,
      bootMs: () => systemSeams.bootMs() + asleepMs,
      wallMs: () => systemSeams.wallMs() + setMs,
    }
    const [ours, theirs] = [file.backend({}, {}, seams), file.backend({}, {}, seams)]
    const grant = await acquired(ours, 'a')
    setMs = 3_600_000
    expect((await theirs.tryAcquire(request('a'))).kind).toBe('held')
    setMs = -3_600_000
    expect((await ours.renew(grant, LONG_MS)).kind).toBe('renewed')
    asleepMs = LONG_MS + 2 * CLOCK_GRAIN_MS
    expect(await ours.renew(grant, LONG_MS)).toEqual({ kind: 'lost', reason: 'expired' })
    const next = await acquired(theirs, 'a')
    expect(next.fencingToken).toBeGreaterThan(grant.fencingToken)
  })

  // B005: the boot clock stands for 10 ms at a time: counted from what it shows, a lock ends too early.
  it('never ends a lock before its time, wherever the clock stands in its step', async () => {
    let trueMs = 0
    const bootMs = (): number => 1000 + Math.floor(trueMs / CLOCK_GRAIN_MS) * CLOCK_GRAIN_MS
    const seams = { ...systemSeams, bootMs }
    const [ours, theirs] = [file.backend({}, {}, seams), file.backend({}, {}, seams)]
    for (let startMs = 0; startMs < 2 * CLOCK_GRAIN_MS; startMs += 1.9) {
      trueMs = startMs
      const grant = await acquired(ours, `${startMs}`, { ttlMs: 100 })
      trueMs = startMs + 99.9
      expect((await theirs.tryAcquire(request(`${startMs}`))).kind).toBe('held')
      trueMs = startMs + 100 + 2 * CLOCK_GRAIN_MS
      expect((await theirs.tryAcquire(request(`${startMs}`))).kind).toBe('granted')
      expect(grant.ttlMs).toBe(100)
    }
  })

  // B098: what has been held once is kept for ever.
  it('holds what lives, not what has been', async () => {
    let asleepMs = 0
    const seams = { ...systemSeams, bootMs: () => systemSeams.bootMs() + asleepMs }
    const backend = file.backend({ synchronous: 'normal' }, {}, seams)
    for (let index = 0; index < 200; index++) {
      await acquired(backend, `dead ${index}`)
      await backend.tryAcquire(request(`dead ${index}`, { waits: true }))
      await backend.cancel('other', request('other').owner)
    }
    const counts = (): number[] => ['locks', 'queue', 'cancelled'].map((t) => file.rows(t).length)
    expect(counts()).toEqual([200, 200, 200])
    asleepMs = 10 * LONG_MS
    await working(backend, 100)
    // Those that live, and the last few.
    const [locks = 200, queue = 200, cancelled = 200] = counts()
    expect([locks < 10, queue < 10, cancelled < 110]).toEqual([true, true, true])
  })
})

async function working(backend: Backend, rounds: number): Promise<void> {
  for (let round = 0; round < rounds; round++) {
    const grant: Grant = await acquired(backend, 'living')
    await backend.tryAcquire(request('living', { waits: true, waiter: 'one and the same' }))
    await backend.stopWaiting?.('living', 'one and the same')
    await backend.cancel('living', request('living').owner)
    await backend.release(grant, 0)
  }
}
