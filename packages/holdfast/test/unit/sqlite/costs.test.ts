/** What a lock file costs, in statements and looks: figures that no machine's speed changes. */
import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { thisHost } from '../../../src/backends/sqlite/host.ts'
import { sqliteBackendWith } from '../../../src/backends/sqlite/sqlite-backend.ts'
import type { SqliteDatabase, SqliteStatement } from '../../../src/clients/sqlite.ts'
import { systemSeams } from '../../../src/core/seams.ts'
import { createLocks } from '../../../src/lock/lock.ts'
import { sqliteBackend } from '../../../src/sqlite.ts'
import { acquired, request } from '../../../src/testkit/backend-harness.ts'
import { openFileWatchers } from '../../support/file-watchers.ts'
import { sqliteDrivers } from '../../support/sqlite-drivers.ts'
import { LockFile } from '../../support/sqlite-locks.ts'

const WAITERS_AHEAD = 10
const COMMITS_MS = 600
/** Fewer in that time leave everybody time enough to look at each. */
const COMMITS_MIN = 150
const DRAWS_MAX = 40

const watchers = openFileWatchers()

/** Tells `run` of each statement that is executed, and of each that is prepared. */
function watched(db: SqliteDatabase, run: (sql: string, how: 'run' | 'prepare') => void) {
  const told = (statement: SqliteStatement, sql: string): SqliteStatement =>
    new Proxy(statement, {
      get(target, name) {
        const value: unknown = Reflect.get(target, name)
        if (typeof value !== 'function') return value
        return (...given: unknown[]) => {
          if (['run', 'get', 'all'].includes(String(name))) run(sql, 'run')
          return value.apply(target, given)
        }
      },
    })
  return {
    prepare: (sql: string) => {
      run(sql, 'prepare')
      return told(db.prepare(sql), sql)
    },
    exec: (sql: string) => {
      run(sql, 'run')
      return db.exec(sql)
    },
  }
}

/** Somebody else's commits, one after the other. @returns How many. */
async function commits(db: SqliteDatabase): Promise<number> {
  const untilMs = systemSeams.nowMs() + COMMITS_MS
  let count = 0
  for (; systemSeams.nowMs() < untilMs; count++) {
    db.exec('UPDATE holdfast_meta SET counter = counter + 1')
    await sleep(1)
  }
  return count
}

describe.each(sqliteDrivers())('on a lock file, with $name,', (driver) => {
  let file: LockFile

  beforeEach(() => {
    file = new LockFile(driver)
  })

  afterEach(() => file.close())

  // A look before the write, a PRAGMA compiled for each release and RETURNING took half of its time.
  it('a free name is taken and released by two transactions, and by nothing beside them', async () => {
    const ran: string[] = []
    let isInside = false
    const outside: string[] = []
    const db = watched(file.database(), (sql, how) => {
      if (sql === 'BEGIN IMMEDIATE') isInside = true
      if (how === 'prepare' || !isInside) outside.push(sql)
      else ran.push(sql)
      if (sql === 'COMMIT') isInside = false
    })
    const locks = createLocks(sqliteBackend(db))
    await (await locks.acquire('a')).release()
    ran.length = outside.length = 0
    await (await locks.acquire('a')).release()
    expect(ran.filter((sql) => sql === 'COMMIT').length).toBe(2)
    expect(outside).toEqual(['PRAGMA synchronous = 1', 'PRAGMA synchronous = 2'])
    // With BEGIN and COMMIT: find, count, read, sweep, put; remove.
    expect(ran.length).toBeLessThanOrEqual(10)
    expect(ran.filter((sql) => sql.includes('RETURNING'))).toEqual([])
    await locks.close()
  })

  it('who asks again for what is held begins no transaction', async () => {
    const holder = await acquired(file.backend(), 'a')
    let begun = 0
    const db = watched(file.database(), (sql) => {
      if (sql === 'BEGIN IMMEDIATE') begun += 1
    })
    const locks = createLocks(sqliteBackend(db))
    expect(await locks.tryAcquire('a')).toBeNull()
    const before = begun
    for (let asked = 0; asked < 5; asked++) expect(await locks.tryAcquire('a')).toBeNull()
    expect(begun).toBe(before)
    expect(holder.lockName).toBe('a')
    await locks.close()
  })

  // Eight processes that all look at every commit leave the one whose turn it is half a core.
  it('whoever has others before it in a queue looks at fewer commits', async () => {
    const theirs = file.backend()
    const grant = await acquired(theirs, 'a')
    const looks = [0, 0]
    const here = thisHost()
    // To the file they are of two processes, both of which live.
    const hosts = [here, { ...here, pid: process.ppid, startedAt: '' }]
    const backends = hosts.map((host, index) => {
      const db = watched(file.database(), (sql, how) => {
        if (how === 'run' && sql.includes('json_each')) looks[index] = (looks[index] ?? 0) + 1
      })
      return sqliteBackendWith(systemSeams, db, {}, { host })
    })
    const [first, last] = backends
    for (let place = 0; place < WAITERS_AHEAD; place++) {
      await first?.tryAcquire(request('a', { waits: true, waiter: `${place}` }))
    }
    await last?.tryAcquire(request('a', { waits: true, waiter: 'last' }))
    const controller = new AbortController()
    const sleepers = backends.map((backend) => backend.wakeUp?.('a', controller.signal))
    await sleep(20)
    for (let draw = 0; draw < DRAWS_MAX; draw++) {
      looks.fill(0)
      if ((await commits(file.database())) >= COMMITS_MIN) break
    }
    const [byFirst = 0, byLast = 0] = looks
    expect(byLast).toBeGreaterThan(0)
    expect(byLast).toBeLessThan(byFirst / 2)
    controller.abort()
    await Promise.all(sleepers)
    for (const backend of backends) await backend.close()
    await theirs.release(grant, 0)
  })

  // The kernel wakes all that watch for each page that is written.
  it('nobody watches while commits follow each other, and somebody does when they end', async () => {
    const [ours, theirs] = [file.backend(), file.backend()]
    const grant = await acquired(theirs, 'a')
    const before = watchers.size
    const controller = new AbortController()
    const sleeper = ours.wakeUp?.('a', controller.signal)
    await sleep(50)
    expect(watchers.size).toBe(before + 1)
    let seen = 0
    let without = 0
    const timer = setInterval(() => {
      seen += 1
      if (watchers.size === before) without += 1
    }, 2)
    await commits(file.database())
    clearInterval(timer)
    expect(without).toBeGreaterThan(seen / 2)
    for (let tries = 0; tries < 500 && watchers.size === before; tries++) await sleep(10)
    expect(watchers.size).toBe(before + 1)
    controller.abort()
    await sleeper
    await theirs.release(grant, 0)
  })
})
