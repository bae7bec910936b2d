import { setMaxListeners } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { SqliteWakeUps } from '../../../src/backends/sqlite/wake-ups.ts'
import { systemSeams } from '../../../src/core/seams.ts'
import { createLocks } from '../../../src/lock/lock.ts'
import { sqliteBackend } from '../../../src/sqlite.ts'
import { acquired, request } from '../../../src/testkit/backend-harness.ts'
import { openFileWatchers } from '../../support/file-watchers.ts'
import { sqliteDrivers } from '../../support/sqlite-drivers.ts'
import { LockFile } from '../../support/sqlite-locks.ts'

const NAMES = 500
const WINDOWS = 6
/** Everybody asks twice in it. */
const WINDOW_MS = 3000

const watchers = openFileWatchers()

async function until(what: string, isSo: () => boolean): Promise<void> {
  for (let tries = 0; tries < 1000; tries++) {
    if (isSo()) return
    await sleep(10)
  }
  throw new Error(`never: ${what}`)
}

describe.each(sqliteDrivers())('sleepers on a lock file, with $name,', (driver) => {
  let file: LockFile

  beforeEach(() => {
    file = new LockFile(driver)
  })

  afterEach(() => file.close())

  // A watcher for each name would use up what the kernel gives to a user, 8,192 on many machines.
  it('share one watcher, and none is left when nobody sleeps', async () => {
    const [ours, theirs] = [file.backend(), file.backend({ synchronous: 'normal' })]
    for (let index = 0; index < NAMES; index++) await acquired(theirs, `${index}`)
    const before = watchers.size
    const controller = new AbortController()
    setMaxListeners(NAMES, controller.signal)
    const sleepers = Array.from({ length: NAMES }, (_, index) =>
      ours.wakeUp?.(`${index}`, controller.signal),
    )
    await until('there is a watcher', () => watchers.size > before)
    await sleep(50)
    expect(watchers.size).toBe(before + 1)
    controller.abort()
    await Promise.all(sleepers)
    await until('the watcher is closed', () => watchers.size === before)
  })

  it('are woken for the name that was released, and for no other', async () => {
    const [ours, theirs] = [file.backend(), file.backend()]
    const grants = [await acquired(theirs, 'a'), await acquired(theirs, 'b')]
    const controller = new AbortController()
    const woken: string[] = []
    const sleepers = ['a', 'b'].map((name) =>
      ours.wakeUp?.(name, controller.signal).then(() => woken.push(name)),
    )
    await sleep(100)
    expect(woken).toEqual([])
    if (grants[1]) await theirs.release(grants[1], 0)
    await until('b is woken', () => woken.length > 0)
    await sleep(200)
    expect(woken).toEqual(['b'])
    controller.abort()
    await Promise.all(sleepers)
  })

  // B066: whoever waits for longer than a place lasts is dropped. And hundreds of contenders that each write
  // to keep a place leave the disk no time for anything else.
  it('keep their places by one write for all names, not one for each', async () => {
    const theirs = file.backend({ synchronous: 'normal' })
    const db = file.database()
    let commits = 0
    const counted = {
      prepare: (sql: string) => db.prepare(sql),
      exec: (sql: string) => {
        if (sql === 'COMMIT') commits += 1
        return db.exec(sql)
      },
    }
    const locks = createLocks(sqliteBackend(counted, { synchronous: 'normal' }))
    const names = Array.from({ length: 100 }, (_, index) => `${index}`)
    for (const name of names) await acquired(theirs, name)
    const waiting = names.map((name) => locks.acquire(name).catch((error) => error.code))
    await until('all stand in the queue', () => file.rows('queue').length === names.length)
    // Each for itself they are more than the names in every window. On a slow machine all may ask late,
    // and then write each for itself: not in all of them.
    let least = Number.POSITIVE_INFINITY
    for (let window = 0; window < WINDOWS && least >= names.length; window++) {
      const before = commits
      await sleep(WINDOW_MS)
      least = Math.min(least, commits - before)
    }
    expect(least).toBeLessThan(names.length)
    await until('all stand there still', () => file.rows('queue').length === names.length)
    await locks.close()
    expect(new Set(await Promise.all(waiting))).toEqual(new Set(['CLOSED']))
    await until('all places are given up', () => file.rows('queue').length === 0)
  })

  // A holder that is dead, or stands still, commits nothing: the next one came at its poll, a second later.
  it('are woken when the entry ends by itself', async () => {
    const [ours, theirs] = [file.backend(), file.backend()]
    await theirs.tryAcquire(request('a', { ttlMs: 2000 }))
    await acquired(theirs, 'b')
    const controller = new AbortController()
    const woken: string[] = []
    const sleepers = ['a', 'b'].map((name) =>
      ours.wakeUp?.(name, controller.signal).then(() => woken.push(name)),
    )
    await sleep(200)
    expect(woken).toEqual([])
    await until('the one for the entry that ended is woken', () => woken.length > 0)
    expect(woken).toEqual(['a'])
    controller.abort()
    await Promise.all(sleepers)
  })

  it('who are not first in the queue sleep on, until the first is gone', async () => {
    const [ours, theirs] = [file.backend(), file.backend()]
    const grant = await acquired(theirs, 'a')
    await theirs.tryAcquire(request('a', { waits: true, waiter: 'first' }))
    await ours.tryAcquire(request('a', { waits: true, waiter: 'second' }))
    // To the others it is a process of another namespace, of which nothing can be known.
    file.database().exec("UPDATE holdfast_queue SET pid_namespace = 'x' WHERE waiter = 'first'")
    await theirs.release(grant, 0)
    const controller = new AbortController()
    let isWoken = false
    const sleeper = ours.wakeUp?.('a', controller.signal).then(() => {
      isWoken = true
    })
    await sleep(200)
    expect(isWoken).toBe(false)
    await theirs.stopWaiting?.('a', 'first')
    await until('the second is woken', () => isWoken)
    await sleeper
  })
})

// A thread that was ended leaves its place behind, in a process that lives: nothing tells that it is nobody's.
describe.each(sqliteDrivers())(
  'behind a place that nobody of its process wants, with $name,',
  (driver) => {
    let file: LockFile
    const abandoned = { waits: true, waiter: 'nobody' }

    beforeEach(() => {
      file = new LockFile(driver)
    })

    afterEach(() => file.close())

    it('a contender of the same process sleeps until that one ends, and comes then', async () => {
      const [ours, theirs, holder] = [file.backend(), file.backend(), file.backend()]
      const grant = await acquired(holder, 'a')
      await theirs.tryAcquire(request('a', abandoned))
      const tryAcquire = ours.tryAcquire.bind(ours)
      let asks = 0
      ours.tryAcquire = (asked) => {
        asks += 1
        return tryAcquire(asked)
      }
      const locks = createLocks(ours)
      const lease = locks.acquire('a', { waitMs: 30_000 })
      await until('both have a place', () => file.rows('queue').length === 2)
      await holder.release(grant, 0)
      await (await lease).release()
      await locks.close()
      // Woken again and again it asked 500 times a second.
      expect(asks).toBeLessThan(20)
    })

    it('its heartbeat is written by nobody else', async () => {
      const [ours, theirs, holder] = [file.backend(), file.backend(), file.backend()]
      const locks = createLocks(ours)
      const names = ['a', 'b', 'c']
      for (const name of names) await acquired(holder, name)
      const waiting = names.map((name) => locks.acquire(name).catch((error) => error.code))
      await until('three wait', () => file.rows('queue').length === 3)
      await theirs.tryAcquire(request('a', abandoned))
      const places = () => file.rows('queue').filter(({ waiter }) => waiter === abandoned.waiter)
      const [before] = places()
      expect(before).toBeDefined()
      // As long as it stands there, at most 2 s and a slow machine's sweep, it ends when it was to end.
      for (const startMs = systemSeams.nowMs(); systemSeams.nowMs() - startMs < 4000; ) {
        await sleep(50)
        for (const now of places()) expect(now['ends_at_ms']).toBe(before?.['ends_at_ms'])
      }
      await locks.close()
      expect(new Set(await Promise.all(waiting))).toEqual(new Set(['CLOSED']))
    })
  },
)

// inotify has none left, or the folder is not to be read: the poll is the guarantee.
it('without a watcher a commit is seen by polling, and a database that fails wakes everybody', async () => {
  let version = 1
  let fails = false
  const looks = {
    version: () => {
      if (fails) throw new Error('closed')
      return version
    },
    free: (names: readonly string[]) => ({
      ours: version > 1 ? [...names] : [],
      others: [],
      endsInMs: Number.POSITIVE_INFINITY,
      ahead: 0,
    }),
  }
  const wakeUps = new SqliteWakeUps('/nowhere/at/all/locks.db', looks, () => systemSeams)
  const { signal } = new AbortController()
  let woken = 0
  const note = (): void => {
    woken += 1
  }
  const first = wakeUps.sleep('a', signal).then(note)
  await sleep(100)
  expect([watchers.size, woken]).toEqual([0, 0])
  version = 2
  await first
  version = 1
  const second = wakeUps.sleep('a', signal).then(note)
  await sleep(100)
  expect(woken).toBe(1)
  fails = true
  await second
  expect(woken).toBe(2)
})
