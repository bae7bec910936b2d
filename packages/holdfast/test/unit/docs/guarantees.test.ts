import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Redis } from 'ioredis'
import { afterAll, beforeAll, expect, it } from 'vitest'
import {
  guaranteeRows,
  guaranteeTable,
  withGuarantees,
} from '../../../../../scripts/lib/guarantee-table.mjs'
import { memoryBackend } from '../../../src/backends/memory/memory.ts'
import type { Capabilities } from '../../../src/core/capabilities.ts'
import {
  driftAllowanceMs,
  leastRestMs,
  lifeMs,
  marginMs,
  renewEveryMs,
} from '../../../src/core/validity.ts'
import { etcdBackend } from '../../../src/etcd.ts'
import { redisBackend } from '../../../src/redis.ts'
import { redlockBackend } from '../../../src/redlock.ts'
import { sqliteBackend } from '../../../src/sqlite.ts'
import { type OpenDatabase, sqliteDrivers } from '../../support/sqlite-drivers.ts'
import { findFile, readRepository } from '../tidy/repository.ts'
import { pageOf, tableUnder } from './pages.ts'

const FIRST_SENTENCE =
  'No lease gives mutual exclusion when its holder can pause; nor does the guard: it makes one ' +
  "store refuse what a superseded holder sends after the next holder's claim."

let folder: string
let database: OpenDatabase | null = null
/** Real backends of which nothing is asked: the client never connects. */
let rows: ReturnType<typeof guaranteeRows> = []

const [driver] = sqliteDrivers()

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'holdfast-guarantees-'))
  database = driver?.open(join(folder, 'locks.db')) ?? null
  const library = { memoryBackend, redisBackend, redlockBackend, etcdBackend, sqliteBackend }
  rows = guaranteeRows(library, new Redis({ lazyConnect: true }), database)
})

afterAll(() => {
  database?.close()
  rmSync(folder, { recursive: true, force: true })
})

function capabilitiesOf(backend: string): Capabilities {
  const row = rows.find((candidate) => candidate.backend === backend)
  if (row === undefined) throw new Error(`no row is for ${backend}`)
  return row.capabilities
}

/** Each capability with every value that its type has, from the source; [] for a number. */
function declared(): Map<string, string[]> {
  const path = 'packages/holdfast/src/core/capabilities.ts'
  const text = findFile(readRepository(), path)?.text ?? ''
  const found = new Map<string, string[]>()
  for (const [, name = '', type = ''] of text.matchAll(/^ {2}(\w+): (.+)$/gm)) {
    found.set(
      name,
      [...type.matchAll(/'([\w-]+)'/g)].map(([, value = '']) => value),
    )
  }
  return found
}

const thousands = (value: number): string => value.toLocaleString('en-US')

// The accident: readers take a lock for what it is not, because the page begins with its strengths.
it('the page begins with what no lock can do, and the README says it before anything is sold', () => {
  const joined = (path: string): string => pageOf(path).text.replace(/\s+/g, ' ')
  expect(joined('docs/guarantees.md').startsWith(`# Guarantees ${FIRST_SENTENCE}`)).toBe(true)
  expect(joined('README.md')).toContain(
    `## What it guarantees, and what it does not **${FIRST_SENTENCE}`,
  )
})

// The accident: a backend claims what nobody explained.
it('every value of every capability has its sentence', () => {
  const capabilities = declared()
  expect([...capabilities.keys()]).toEqual([
    ...['scope', 'fencing', 'expiry', 'lossNotice', 'order', 'wakeUp', 'ttlMsMin', 'ttlMsMax'],
  ])
  const rows = tableUnder(pageOf('docs/guarantees.md'), '## Capabilities')
  const explained = rows.map(([capability, value]) => `${capability} ${value}`)
  const wanted = [...capabilities].flatMap(([name, values]) => values.map((v) => `${name} ${v}`))
  expect(explained).toEqual([...wanted, '`ttlMsMin`, `ttlMsMax` numbers'])
  for (const [, , sentence = ''] of rows) expect(sentence).toMatch(/^[A-Z].{30,}\.$/)
})

// Where no driver of SQLite can be had, a test that is left out says so.
if (driver !== undefined) {
  // The accident: a capability changes in the code, and the page goes on to promise the old one.
  it('the page says who has which capability, as the backends do', () => {
    const memory = capabilitiesOf('memoryBackend()')
    const redis = capabilitiesOf('redisBackend(client)')
    const redisPolling = capabilitiesOf('redisBackend(client, { subscriber: false })')
    const redlock = capabilitiesOf('redlockBackend(nodes)')
    const etcd = capabilitiesOf('etcdBackend(options)')
    const sqlite = capabilitiesOf('sqliteBackend(database)')
    const sqliteNormal = capabilitiesOf("sqliteBackend(database, { synchronous: 'normal' })")
    for (const [name = '', value, , who] of tableUnder(
      pageOf('docs/guarantees.md'),
      '## Capabilities',
    )) {
      if (name.includes('ttlMsMin')) continue
      const key = name as keyof Capabilities
      const has: string[] = []
      if (memory[key] === value) has.push('memory')
      if (redis[key] === value) has.push('redis')
      if (redis[key] !== value && redisPolling[key] === value) {
        has.push('redis with `subscriber: false`')
      }
      if (redlock[key] === value) has.push('redlock')
      if (etcd[key] === value) has.push('etcd')
      if (sqlite[key] === value) has.push('sqlite')
      if (sqlite[key] !== value && sqliteNormal[key] === value) {
        has.push("sqlite with `synchronous: 'normal'`")
      }
      expect(`${key} ${value}: ${who}`).toBe(`${key} ${value}: ${has.join(', ') || 'none yet'}`)
    }
  })

  // The accident: a backend promises less than before, and the table goes on to promise the old.
  it('the tables are what the backends say', () => {
    for (const path of ['README.md', 'docs/guarantees.md']) {
      const { text } = pageOf(path)
      expect(text).toContain(guaranteeTable(rows, path))
      expect(withGuarantees(text, path, rows)).toBe(text)
    }
  })
}

it('a table that was changed by hand is put in anew, and half a mark is a mistake', () => {
  const page = 'a\n<!-- guarantees -->\n| old |\n<!-- /guarantees -->\nb\n'
  const fresh = withGuarantees(page, 'README.md', rows)
  expect(fresh).toBe(
    `a\n<!-- guarantees -->\n${guaranteeTable(rows, 'README.md')}<!-- /guarantees -->\nb\n`,
  )
  expect(withGuarantees('no marks\n', 'README.md', rows)).toBe('no marks\n')
  expect(() => withGuarantees('<!-- guarantees -->\n', 'README.md', rows)).toThrow('mark')
})

it.each<readonly [name: string, backend: string]>([
  ['memory', 'memoryBackend()'],
  ['redis', 'redisBackend(client)'],
  ['redlock', 'redlockBackend(nodes)'],
  ['etcd', 'etcdBackend(options)'],
  ...(driver ? [['sqlite', 'sqliteBackend(database)'] as const] : []),
])('the page of the %s backend says what it declares', (name, backend) => {
  const found = tableUnder(pageOf(`docs/backends/${name}.md`), '## What it guarantees')
  const { ttlMsMin, ttlMsMax, ...texts } = capabilitiesOf(backend)
  expect(found.map(([capability, value]) => [capability, value])).toEqual([
    ...Object.entries(texts),
    ['`ttlMsMin`, `ttlMsMax`', `${thousands(ttlMsMin)}, ${thousands(ttlMsMax)}`],
  ])
})

// The accident: somebody plans with figures that the arithmetic no longer gives.
it('the figures of the deadline are those of the arithmetic', () => {
  const rows = tableUnder(pageOf('docs/guarantees.md'), '## What a lease promises')
  expect(rows.length).toBeGreaterThan(3)
  for (const [ttl = '', ...figures] of rows) {
    const ttlMs = Number(ttl.replaceAll(',', ''))
    const computed = [driftAllowanceMs, marginMs, lifeMs, renewEveryMs, leastRestMs]
    expect([ttl, ...figures]).toEqual([ttl, ...computed.map((of) => thousands(of(ttlMs)))])
  }
})
