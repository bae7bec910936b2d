/** What docs/backends/sqlite.md says that needs no file to be compared. */
import { expect, it } from 'vitest'
import { refusedFileSystem } from '../../../src/backends/sqlite/file-systems.ts'
import { readSqliteOptions } from '../../../src/backends/sqlite/options.ts'
import { pageOf, tableUnder } from './pages.ts'

const page = pageOf('docs/backends/sqlite.md')

// The accident: an option is renamed or gets another default, and the pages go on with the old one.
it.each([
  ['docs/backends/sqlite.md', '## Options'],
  ['docs/options.md', '## SQLite backend: `sqliteBackend(database, options)`'],
])('the options of %s are those that are read, with their defaults', (path, heading) => {
  const shown = tableUnder(pageOf(path), heading).map(([option, value]) => [option, value])
  expect(shown).toEqual(Object.entries(readSqliteOptions({})))
})

it('the file systems that the page names are refused', () => {
  const section = page.text.slice(page.text.indexOf('## Where the file may lie'))
  const types = [0x6969, 0x517b, 0xff534d42, 0x5346414f, 0x00c36400, 0x0bd00bd0, 0x47504653]
  const more = [0x01161970, 0x7461636f, 0x19830326, 0x20030528, 0x65735546]
  for (const type of [...types, ...more]) {
    const name = refusedFileSystem(type)
    expect(name).not.toBeNull()
    expect(section).toContain(`${name}`)
  }
})
