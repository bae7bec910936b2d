import { expect, it } from 'vitest'
import { chooseDriver, type DriverName, type DriverSource } from '../../../src/connect/drivers.ts'
import { notFound } from '../../support/connect.ts'

const REDIS: readonly DriverName[] = ['ioredis', 'redis']
const SQLITE: readonly DriverName[] = ['better-sqlite3', 'node:sqlite']

/** What is installed, by version; an Error is what loading it ends with. */
function installed(versions: Partial<Record<DriverName, string | Error>>): DriverSource {
  return {
    async load(name) {
      const one = versions[name]
      if (one instanceof Error) return { error: one }
      if (one !== undefined) return { module: `module ${name}` }
      return { error: name === 'node:sqlite' ? undefined : notFound(name) }
    },
    version: (name) => String(versions[name]),
  }
}

const chosen = async (...given: Parameters<typeof chooseDriver>): Promise<string> =>
  chooseDriver(...given).then(
    ({ name }) => name,
    ({ code, message }) => `${code}: ${message}`,
  )

// The accident: an application has both for other reasons, and the one that it gets depends on the
// order in which they happen to be found.
it('of two that are installed the first is taken, unless the option says otherwise', async () => {
  const both = installed({ ioredis: '6.0.0', redis: '6.0.0' })
  expect(await chosen(both, REDIS, undefined)).toBe('ioredis')
  expect(await chosen(both, REDIS, 'redis')).toBe('redis')
  expect(await chosen(installed({ redis: '5.9.0' }), REDIS, undefined)).toBe('redis')
  const file = installed({ 'better-sqlite3': '12.11.1', 'node:sqlite': '' })
  expect(await chosen(file, SQLITE, undefined)).toBe('better-sqlite3')
  expect(await chosen(file, SQLITE, 'node:sqlite')).toBe('node:sqlite')
  expect(await chosen(installed({ 'node:sqlite': '' }), SQLITE, undefined)).toBe('node:sqlite')
})

it('a missing one is answered with the line that installs it', async () => {
  const none = installed({})
  expect(await chosen(none, REDIS, undefined)).toBe(
    'INVALID_ARGUMENT: no driver for Redis: ioredis is not installed, ' +
      'redis is not installed; run: npm install ioredis, or npm install redis',
  )
  expect(await chosen(installed({ ioredis: '6.0.0' }), REDIS, 'redis')).toBe(
    'INVALID_ARGUMENT: driver is "redis", allowed: one that loads: redis is not installed; ' +
      'run: npm install redis',
  )
  expect(await chosen(none, SQLITE, undefined)).toMatch(
    /: no driver for SQLite: better-sqlite3 is not installed, .*; run: npm install better-sqlite3@12, or use Node 22\.13 or newer$/,
  )
})

// The accident: a compiled part that was built for another Node is reported as "not installed", and
// installing it again changes nothing.
it('one that is there and does not load is told apart, by its code alone', async () => {
  const otherNode = Object.assign(new Error('NODE_MODULE_VERSION 115, secret path'), {
    code: 'ERR_DLOPEN_FAILED',
  })
  const half = Object.assign(new Error("Cannot find package 'denque' imported from ioredis"), {
    code: 'ERR_MODULE_NOT_FOUND',
  })
  const broken = installed({ 'better-sqlite3': otherNode, ioredis: half })
  expect(await chosen(broken, SQLITE, 'better-sqlite3')).toMatch(
    /is installed but does not load \(ERR_DLOPEN_FAILED\); run: npm rebuild better-sqlite3$/,
  )
  const notBuilt = new Error('Could not locate the bindings file. Tried:\n → /secret/path')
  expect(await chosen(installed({ 'better-sqlite3': notBuilt }), SQLITE, undefined)).toMatch(
    /better-sqlite3 is installed but does not load \(its compiled part is not there\), this Node has no node:sqlite; run: npm rebuild better-sqlite3 \(in a bundle, leave it external\), or use Node 22\.13 or newer$/,
  )
  expect(await chosen(broken, REDIS, 'ioredis')).toContain('ioredis is installed but does not load')
})

it('a major that nobody has tried is refused', async () => {
  const old = installed({ ioredis: '4.28.5', redis: '3.1.2', 'better-sqlite3': '13.0.0' })
  expect(await chosen(old, REDIS, undefined)).toBe(
    'INVALID_ARGUMENT: driver is "ioredis 4.28.5", allowed: version 5 or 6; ' +
      'run: npm install ioredis, or choose another driver',
  )
  expect(await chosen(old, REDIS, 'redis')).toContain('driver is "redis 3.1.2"')
  expect(await chosen(old, SQLITE, undefined)).toContain('driver is "better-sqlite3 13.0.0"')
})

it('a driver of another store, and what is none, are refused by name', async () => {
  for (const wanted of ['pg', 'node:sqlite', 5, null]) {
    expect(await chosen(installed({}), REDIS, wanted)).toMatch(
      /^INVALID_ARGUMENT: driver is .*, allowed: 'ioredis' or 'redis', for this scheme$/,
    )
  }
})
