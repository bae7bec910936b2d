import { expect, it } from 'vitest'
import { readGuardOptions } from '../../../src/guards/sqlite/options.ts'
import { ddlOf } from '../../../src/guards/sqlite/schema.ts'
import { pageOf, tableUnder } from './pages.ts'

// The accident: a table is made by hand from the page, and the program finds another one.
it('the page of the SQLite guard has its table as it is made', () => {
  const { tablePrefix } = readGuardOptions({})
  expect(pageOf('docs/guards/sqlite.md').text).toContain(ddlOf(tablePrefix))
})

it('the page of options has those of the SQLite guard, with their defaults', () => {
  const settings = readGuardOptions({})
  const heading = '## SQLite guard: `sqliteGuard(database, options)`'
  const rows = tableUnder(pageOf('docs/options.md'), heading)
  expect(rows.map(([name]) => name).sort()).toEqual(Object.keys(settings).sort())
  const defaults = new Map(rows.map(([name, value]) => [name, value]))
  expect(defaults.get('tablePrefix')).toBe(settings.tablePrefix)
  expect(defaults.get('timeoutMs')).toBe(settings.timeoutMs.toLocaleString('en-US'))
  expect(defaults.get('synchronous')).toBe(settings.synchronous)
  const columns = Object.values(settings.columns).map((name) => `\`${name}\``)
  expect(defaults.get('columns')).toBe(columns.join(', '))
})
