import { Redis } from 'ioredis'
import { expect, it } from 'vitest'
import { memoryBackend } from '../../../src/backends/memory/memory.ts'
import type { Capabilities } from '../../../src/core/capabilities.ts'
import {
  driftAllowanceMs,
  leastRestMs,
  lifeMs,
  marginMs,
  renewEveryMs,
} from '../../../src/core/validity.ts'
import { redisBackend } from '../../../src/redis.ts'
import { sqliteBackend } from '../../../src/sqlite.ts'
import { findFile, readRepository } from '../tidy/repository.ts'
import { pageOf, tableUnder } from './pages.ts'

const FIRST_SENTENCE =
  'No lease gives mutual exclusion when its holder can pause; nor does the guard: it makes one ' +
  "store refuse what a superseded holder sends after the next holder's claim."

/** As the README calls them. Nothing is asked of the clients here. */
function backends(): Record<string, Capabilities> {
  const client = new Redis({ lazyConnect: true })
  const file = [{ name: 'main', file: '/nowhere/locks.db' }]
  const statement = { run: () => ({ changes: 0 }), get: () => undefined, all: () => file }
  const database = { exec: () => undefined, prepare: () => statement }
  return {
    '[`memoryBackend()`](docs/backends/memory.md)': memoryBackend().capabilities,
    '[`redisBackend(client)`](docs/backends/redis.md)': redisBackend(client).capabilities,
    'redisBackend(client, { subscriber: false })': redisBackend(client, { subscriber: false })
      .capabilities,
    '[`sqliteBackend(database)`](docs/backends/sqlite.md)': sqliteBackend(database).capabilities,
    "sqliteBackend(database, { synchronous: 'normal' })": sqliteBackend(database, {
      synchronous: 'normal',
    }).capabilities,
  }
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

// The accident: a capability changes in the code, and the page goes on to promise the old one.
it('the page says who has which capability, as the backends do', () => {
  const ours = backends()
  const [memory, redis, redisPolling, sqlite, sqliteNormal] = Object.values(ours) as [
    ...[Capabilities, Capabilities, Capabilities, Capabilities, Capabilities],
  ]
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
    if (sqlite[key] === value) has.push('sqlite')
    if (sqlite[key] !== value && sqliteNormal[key] === value) {
      has.push("sqlite with `synchronous: 'normal'`")
    }
    expect(`${key} ${value}: ${who}`).toBe(`${key} ${value}: ${has.join(', ') || 'none yet'}`)
  }
})

it('the table of the README is what the backends declare', () => {
  const rows = tableUnder(pageOf('README.md'), '## What each backend guarantees')
  const expected = Object.entries(backends()).map(([title, c]) => [
    ...[title, c.scope, c.fencing, c.expiry, c.lossNotice, c.order, c.wakeUp],
    `${thousands(c.ttlMsMin)} to ${thousands(c.ttlMsMax)}`,
  ])
  expect(rows).toEqual(expected)
})

it.each([
  ['memory', '[`memoryBackend()`](docs/backends/memory.md)'],
  ['redis', '[`redisBackend(client)`](docs/backends/redis.md)'],
  ['sqlite', '[`sqliteBackend(database)`](docs/backends/sqlite.md)'],
])('the page of the %s backend says what it declares', (name, title) => {
  const capabilities = backends()[title] as Capabilities
  const rows = tableUnder(pageOf(`docs/backends/${name}.md`), '## What it guarantees')
  const { ttlMsMin, ttlMsMax, ...texts } = capabilities
  expect(rows.map(([capability, value]) => [capability, value])).toEqual([
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
