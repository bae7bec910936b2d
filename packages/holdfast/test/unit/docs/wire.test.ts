import { expect, it } from 'vitest'
import { ddl } from '../../../src/backends/sqlite/schema.ts'
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

/** Each script by its constant, with what it takes and answers as an indented block. */
function headers(): string[] {
  const folder = 'packages/holdfast/src/backends/redis/scripts/'
  const header =
    /export const (\w+): (?:RedisScript|string) = (?:defineScript\(\s*'[\w-]+',\s*)?\/\* lua \*\/ `\n((?:-- (?:KEYS|ARGV|Reply| ).*\n)+)/g
  return readRepository()
    .filter(({ path }) => path.startsWith(folder))
    .flatMap(({ text }) => [...text.matchAll(header)])
    .map(([, name = '', lines = '']) => {
      const block = lines.replace(/^-- /gm, '    ')
      return `\`${name.replace(/_LUA$/, '')}\`\n\n${block}`
    })
    .sort()
}

// The accident: a script reads one more key, and the page still has the old one.
it('the headers of the scripts are those of the sources', () => {
  const found = headers()
  expect(found.length).toBeGreaterThan(12)
  const section = page.text.slice(page.text.indexOf('\n`ACQUIRE`') + 1)
  expect(section).toBe(found.join('\n'))
})
