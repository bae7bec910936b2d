import { expect, it } from 'vitest'
import { lifeMs, renewEveryMs } from '../../../src/core/validity.ts'
import { pageOf, tableUnder } from './pages.ts'

const page = pageOf('docs/choosing.md')

/** Milliseconds of `1 s`, `5 min`. */
function milliseconds(text: string): number {
  const [, count = '', unit = ''] = /^([\d.]+) (s|min)/.exec(text) ?? []
  return Number(count) * (unit === 'min' ? 60_000 : 1000)
}

// The accident: somebody chooses a TTL by a table that was right for another margin.
it('the table of TTLs is that of the arithmetic', () => {
  const rows = tableUnder(page, '## How long a TTL')
  expect(rows.length).toBe(4)
  for (const [ttl = '', crash = '', stall = '', renewals = ''] of rows) {
    const ttlMs = milliseconds(ttl)
    expect(milliseconds(crash)).toBe(ttlMs)
    expect((Number(renewals) * renewEveryMs(ttlMs)) / 60_000).toBeCloseTo(1, 2)
    const [, least = '', most = '', unit = ''] = /^([\d.]+) to ([\d.]+) (s|min)$/.exec(stall) ?? []
    const unitMs = milliseconds(`1 ${unit}`)
    expect(least).toBe(((lifeMs(ttlMs) - renewEveryMs(ttlMs)) / unitMs).toFixed(1))
    expect(most).toBe((lifeMs(ttlMs) / unitMs).toFixed(1))
  }
})

// The accident: one page is corrected, and the other goes on to quote it.
it('the costs on Redis are sums of the table on the page of Redis', () => {
  const costs = new Map(
    tableUnder(pageOf('docs/backends/redis.md'), '## Costs').map(([operation = '', ...rest]) => [
      operation,
      rest,
    ]),
  )
  const sum = (...operations: string[]): string => {
    const all = operations.map((operation) => costs.get(operation)?.map(Number.parseFloat) ?? [])
    const total = (column: number): number =>
      all.reduce((before, figures) => before + (figures[column] ?? Number.NaN), 0)
    const scripts = total(0) === 1 ? '1 script' : `${total(0)} scripts`
    return `${total(0)}; ${total(1)} commands in ${scripts}; ${total(2)} and ${total(3)}`
  }
  const rows = tableUnder(page, '## What each costs').map(([, ...rest]) => rest.join('; '))
  expect(rows.slice(0, 3)).toEqual([
    sum('acquire, granted', 'release'),
    sum('renewal'),
    sum('hand-over to the next contender of this process'),
  ])
})
