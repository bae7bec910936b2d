/** What a lock file costs, in statements: figures that no machine's speed changes. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { SqliteDatabase, SqliteStatement } from '../../../src/clients/sqlite.ts'
import { createLocks } from '../../../src/lock/lock.ts'
import { sqliteBackend } from '../../../src/sqlite.ts'
import { acquired } from '../../../src/testkit/backend-harness.ts'
import { sqliteDrivers } from '../../support/sqlite-drivers.ts'
import { LockFile } from '../../support/sqlite-locks.ts'

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
})
