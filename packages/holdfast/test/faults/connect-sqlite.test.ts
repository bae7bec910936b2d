import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readlinkSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join, relative } from 'node:path'
import { pathToFileURL } from 'node:url'
import { inspect } from 'node:util'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { connectWith } from '../../src/connect/connect.ts'
import type { DriverSource } from '../../src/connect/drivers.ts'
import { type ConnectOptions, connect } from '../../src/connect.ts'
import type { Locks } from '../../src/core/lease.ts'
import { moduleUrl, openChildren } from '../support/child.ts'
import { childDrivers } from '../support/sqlite-child.ts'
import { type SqliteDriver, sqliteDrivers } from '../support/sqlite-drivers.ts'

let folder: string
const ends: (() => unknown)[] = []

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'holdfast-connect-'))
})

afterEach(async () => {
  for (const end of ends.splice(0)) await end()
  rmSync(folder, { recursive: true, force: true })
})

/** As if this one, and no other, were there; it may be compiled for a Node of its own. */
function only(driver: SqliteDriver): DriverSource {
  function Database(path: string): unknown {
    return driver.open(path)
  }
  const module = driver.name === 'node:sqlite' ? { DatabaseSync: Database } : Database
  return {
    load: async (name) => (name === driver.name ? { module } : { error: undefined }),
    version: () => null,
  }
}

/** Files of the folder that this process has open. */
function openFiles(): string[] {
  return readdirSync('/proc/self/fd').flatMap((fd) => {
    try {
      const path = readlinkSync(`/proc/self/fd/${fd}`)
      return path.startsWith(folder) ? [path] : []
    } catch {
      return []
    }
  })
}

describe.each(sqliteDrivers().map((driver) => [driver.name, driver] as const))(
  '%s',
  (_, driver) => {
    const open = async (url: string, options?: ConnectOptions): Promise<Locks> => {
      const locks = await connectWith(only(driver), url, options)
      ends.push(() => locks.close())
      return locks
    }

    // The accident: two programs mean one file, write it differently, and each has locks of its own.
    it('every form of the path is the same file, which is made and closed again', async () => {
      const path = join(folder, 'my locks%#?.db')
      const encoded = pathToFileURL(path).pathname
      const forms = [
        `sqlite:${encoded}`,
        `sqlite://${encoded}`,
        `sqlite:${relative(process.cwd(), path).split('/').map(encodeURIComponent).join('/')}`,
        `SQLITE:./${encodeURIComponent(relative(process.cwd(), path))}`,
      ]
      const holders = await Promise.all(forms.map((form) => open(form)))
      const lease = await holders[0]?.acquire('a')
      expect(existsSync(path)).toBe(true)
      for (const other of holders.slice(1)) expect(await other.tryAcquire('a')).toBeNull()
      await lease?.release()
      for (const locks of holders) {
        await locks.using('a', async ({ fencingToken }) => {
          expect(fencingToken).toBeGreaterThan(lease?.fencingToken ?? 0n)
        })
      }
      expect(openFiles()).not.toEqual([])
      await Promise.all(holders.map((locks) => locks.close()))
      expect(openFiles()).toEqual([])
    })

    it('options of the store, in the URL or beside it, reach it', async () => {
      const url = `sqlite:${folder}/a.db`
      const one = await open(`${url}?tablePrefix=one_&synchronous=normal`)
      const two = await open(url, { tablePrefix: 'two_' })
      expect(one.capabilities.fencing).toBe('forward-clock')
      expect(two.capabilities).toMatchObject({ scope: 'host', fencing: 'durable-store' })
      await one.acquire('a')
      expect(await two.tryAcquire('a')).not.toBeNull()
    })

    // The accidents: a folder that is missing is made somewhere by a typing error; a file that is none
    // of SQLite's is found out at the first lock, hours later.
    it('what cannot be used is told at once, and left as it is', async () => {
      const missing = join(folder, 'nowhere')
      await expect(open(`sqlite:${missing}/a.db`)).rejects.toMatchObject({
        code: 'BACKEND_UNAVAILABLE',
        message: expect.stringContaining(`the folder ${missing} does not exist, and is not made`),
      })
      expect(existsSync(missing)).toBe(false)

      // A slip in the set-up: the URL of another store, with its password, behind the wrong scheme.
      const slip = await open('sqlite:redis://:kanarie@host/0').catch((error) => error)
      expect(slip).toMatchObject({ code: 'BACKEND_UNAVAILABLE' })
      expect(inspect(slip, { depth: 10 })).not.toContain('kanarie')

      const text = join(folder, 'letter.txt')
      writeFileSync(text, 'not a database, and long enough to be looked at as one. '.repeat(40))
      await expect(open(`sqlite:${text}`)).rejects.toMatchObject({ code: 'BACKEND_UNAVAILABLE' })

      mkdirSync(join(folder, 'sub'))
      await expect(open(`sqlite:${folder}/sub`)).rejects.toMatchObject({
        code: 'BACKEND_UNAVAILABLE',
      })
      expect(openFiles()).toEqual([])
    })
  },
)

it('memory: is a store for each call', async () => {
  const [one, other] = await Promise.all([connect('memory:'), connect('memory:', { ttlMs: 5000 })])
  await one.acquire('a')
  expect(await other.tryAcquire('a')).not.toBeNull()
  expect(one.capabilities.scope).toBe('process')
  await Promise.all([one.close(), other.close()])
  await expect(one.tryAcquire('a')).rejects.toMatchObject({ code: 'CLOSED' })
})

it('an abort before the call opens nothing', async () => {
  const signal = AbortSignal.abort(new Error('too late'))
  const url = `sqlite:${folder}/a.db`
  await expect(connect(url, { signal })).rejects.toThrow('too late')
  expect(existsSync(`${folder}/a.db`)).toBe(false)
})

/** `source`, for a child: the driver that it can load. */
function sourceText(name: SqliteDriver['name']): string {
  const addon = process.env['HOLDFAST_BETTER_SQLITE3']
  const options = JSON.stringify(addon ? { nativeBinding: addon } : {})
  if (name === 'node:sqlite')
    return `const load = async () => ({ module: await import('${name}') })`
  return `import Database from ${moduleUrl(name)}
const module = function (path) { return new Database(path, ${options}) }
const load = async () => ({ module })`
}

// The three lines that a program begins with close nothing. A timer, a watcher or a connection that
// stays makes every script hang that does its work under a lock.
it.each(childDrivers.map((driver) => driver.name))(
  'a process that forgets to close the locks of a file ends by itself, by %s',
  async (name) => {
    const children = await openChildren()
    ends.push(() => children.remove())
    const child = children.run(`
import { connectWith } from './dist/connect/connect.js'
${sourceText(name)}
const url = ${JSON.stringify(`sqlite:${folder}/a.db`)}
const locks = await connectWith({ load, version: () => null }, url, { driver: '${name}' })
await locks.using('a', async () => {})
await locks.acquire('b', { ttlMs: 60_000 })
const waited = await locks.acquire('b', { waitMs: 300 }).catch((error) => error.code)
console.log(waited)
`)
    const { code, signal, stdout, stderr } = await child.ended
    expect([code, signal, stdout]).toEqual([0, null, 'LOCK_HELD\n'])
    expect(stderr).not.toContain('Error')
  },
)
