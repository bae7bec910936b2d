import { expect, it } from 'vitest'
import { Keys } from '../../../src/backends/etcd/keys.ts'
import { foundAt, placeValueOf, REST } from '../../../src/backends/etcd/value.ts'
import { parseMarker } from '../../../src/backends/redlock/marker.ts'
import { ddl } from '../../../src/backends/sqlite/schema.ts'
import type { RedisScript } from '../../../src/clients/redis.ts'
import { ddlOf } from '../../../src/guards/postgres/schema.ts'
import { markerKey, RedisKeys } from '../../../src/wire/keys.ts'
import { readRepository } from '../tidy/repository.ts'
import { pageOf, tableUnder } from './pages.ts'

const page = pageOf('docs/wire.md')

// The accident: somebody writes another program against the page, and it locks something else.
it('the keys of the example are those that a lock has', () => {
  const keys = new RedisKeys('lock:', false).of('order:42')
  const shown = tableUnder(page, '## Keys').map(([key]) => key)
  expect(shown).toEqual([
    keys?.lock,
    keys?.counter,
    keys?.want,
    `${keys?.cancelStart}<owner>`,
    markerKey('lock:'),
  ])
})

it('the value is laid out as on the page of Redis', () => {
  const layout = /^ {4}hf1:.+$/m
  expect(layout.exec(page.text)?.[0]).toBe(layout.exec(pageOf('docs/backends/redis.md').text)?.[0])
})

it('the table is the one that migrate makes', () => {
  expect(/```sql\n([^`]+)```/.exec(page.text)?.[1]).toBe(ddlOf('holdfast'))
})

it('the tables of a lock file are those that the backend makes', () => {
  const shown = [...page.text.matchAll(/```sql\n([^`]+)\n```/g)].map(([, sql]) => sql)
  expect(shown).toContain(ddl('holdfast_').trim())
})

// The accident: a program of another language is written by the page, and waits in another queue.
it('the keys in etcd are those that the backend makes', () => {
  const keys = new Keys('')
  const owner = '<owner>'
  const shown = tableUnder(page, '## Keys in etcd').map(([key]) => key)
  const made = [
    keys.placeKey('order/42', '694d7e1f3c0a9b2f', owner),
    keys.cancelKey(owner),
    keys.base,
  ]
  expect(shown).toEqual(made.map((key) => key.toString()))
  const { key, range_end } = keys.rangeOf('order/42')
  expect(page.text).toContain(`all keys that begin with \`${key}\``)
  expect(range_end.toString()).toBe('order%2F420')
})

it('a place in etcd has the value of the page, and a resting name the other one', () => {
  const [shown = ''] = /^ {4}(\{"s":.+\})$/m.exec(page.text)?.slice(1) ?? []
  const value = placeValueOf({
    ...{ sinceMs: 1, base: 2n, revoked: 3n, lockDelayMs: 4 },
    holder: { host: 'h', pid: 5, label: 'l', value: 'v' },
  }).toString()
  const members = (text: string): string[] =>
    [...text.matchAll(/"(\w)":/g)].map(([, one = '']) => one)
  expect(members(shown)).toEqual(members(value))
  expect(members(shown)).toEqual(['s', 'b', 'r', 'd', 'h', 'p', 'l', 'v'])
  const filled = shown.replace(/"<(base|token)>"/g, '"7"').replace(/"<\w+>"/g, '"x"')
  const text = filled.replace(/<[^>]+>/g, '1')
  const found = foundAt({
    ...{ key: Buffer.alloc(0), create_revision: '10', mod_revision: '11' },
    value: Buffer.from(text),
  })
  expect(found).toMatchObject({ token: 17n, base: 7n, revoked: 7n, lockDelayMs: 1, isRest: false })
  expect(page.text).toContain(`has \`${REST}\``)
})

/** Each script by its constant, with what it takes and answers as an indented block. */
async function headers(backend: 'redis' | 'redlock'): Promise<string[]> {
  const folder = `packages/holdfast/src/backends/${backend}/scripts/`
  const paths = readRepository().map(({ path }) => path)
  const found: string[] = []
  for (const path of paths.filter((one) => one.startsWith(folder))) {
    const { href } = new URL(`../../../../../${path}`, import.meta.url)
    const exported: Readonly<Record<string, unknown>> = await import(href)
    for (const [name, { lua = '' }] of Object.entries(exported) as [
      string,
      Partial<RedisScript>,
    ][]) {
      const [header = ''] = /(?:^-- (?:KEYS|ARGV|Reply| ).*\n)+/m.exec(lua) ?? []
      if (header !== '') found.push(`\`${name}\`\n\n${header.replace(/^-- /gm, '    ')}`)
    }
  }
  return found.sort()
}

// The accident: a script reads one more key, and the page still has the old one.
it('the headers of the scripts are those of the sources', async () => {
  const ofRedis = await headers('redis')
  const ofRedlock = await headers('redlock')
  expect(ofRedis.length).toBeGreaterThan(12)
  expect(ofRedlock.length).toBeGreaterThan(18)
  const [own = '', nodes = ''] = page.text.split("\n## Scripts of a Redlock's nodes\n")
  const listed = (text: string): string => text.slice(text.indexOf('\n`ACQUIRE`') + 1)
  expect(listed(own)).toBe(ofRedis.join('\n'))
  expect(listed(nodes)).toBe(ofRedlock.join('\n'))
})

it('the marker of a node is laid out as it is read', () => {
  const [shown = ''] = /^ {4}hfm1:.+$/m.exec(page.text) ?? []
  const widths = [...shown.matchAll(/(\d+)(?: digits)?>/g)].map(([, width]) => Number(width))
  const markerOf = (all: readonly number[]): string => {
    const fields = all.map((width, at) => (at < 2 ? 'i' : '0').repeat(width))
    return ['hfm1', 'v', ...fields, 'a,b,c'].join(':')
  }
  expect(widths).toHaveLength(5)
  expect(parseMarker(markerOf(widths))).toMatchObject({ state: 'voting', names: ['a', 'b', 'c'] })
  for (const at of widths.keys()) {
    const wrong = widths.map((width, place) => (place === at ? width + 1 : width))
    expect(parseMarker(markerOf(wrong))).toBeNull()
  }
})
