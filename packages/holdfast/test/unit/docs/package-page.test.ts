import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { ROOT } from '../tidy/repository.ts'
import { pageOf, tableUnder } from './pages.ts'

// The page inside of the packed package is the only one that whoever installs it has at hand. Three
// entries had been added without it.
it("the package's own page names every entry that the package has", () => {
  const { exports } = JSON.parse(
    readFileSync(join(ROOT, 'packages/holdfast/package.json'), 'utf8'),
  ) as { exports: Readonly<Record<string, unknown>> }
  const entries = Object.keys(exports).filter((path) => path !== './package.json')
  const named = tableUnder(pageOf('packages/holdfast/README.md'), '## Entries')
  expect(named.map(([entry]) => entry)).toEqual(
    entries.map((path) => path.replace(/^\./, 'holdfast')),
  )
})
