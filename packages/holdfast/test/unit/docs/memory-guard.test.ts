import { expect, it } from 'vitest'
import { readMemoryGuardOptions } from '../../../src/guards/memory/guard.ts'
import { pageOf, tableUnder } from './pages.ts'

it('the page of options has those of the memory guard, with their defaults', () => {
  const settings = readMemoryGuardOptions({})
  const rows = tableUnder(
    pageOf('docs/options.md'),
    '## Memory guard: `memoryGuard(store, options)`',
  )
  expect(rows.map(([name]) => name).sort()).toEqual(Object.keys(settings).sort())
  const defaults = new Map(rows.map(([name, value]) => [name, value]))
  expect(defaults.get('timeoutMs')).toBe(settings.timeoutMs.toLocaleString('en-US'))
})
