/** What a person reads, and what a program reads. */
import Table from 'cli-table3'
import { barsOf } from './bars.ts'
import type { Failure } from './measure.ts'
import type { Row, Spread } from './rows.ts'

export interface GroupResult {
  readonly group: string
  readonly rows: readonly Row[]
  readonly failures: readonly Failure[]
}

/** The one JSON text of a run; `rows` is what every reader may rely on. */
export function jsonReport(
  head: Readonly<Record<string, unknown>>,
  results: readonly GroupResult[],
): string {
  const rows = results.flatMap((result) => result.rows)
  const failures = results.flatMap(({ group, failures }) =>
    failures.map((failure) => ({ group, ...failure })),
  )
  return JSON.stringify({ ...head, rows, bars: barsOf(rows), failures }, null, 2)
}

export function groupReport({ group, rows, failures }: GroupResult): string {
  const lines = [`${group}: ${rows[0]?.n ?? 0} runs, medians; x = of hand-written with token`]
  const hasContenders = rows.some(({ jain }) => jain !== null)
  const hasRequests = rows.some(({ requestsEach }) => requestsEach !== null)
  const table = newTable([
    'client',
    'who',
    'each s',
    'rate x',
    'p50 ms',
    'p50 x',
    'spread of p50 x',
    'p99 ms',
    'longest ms',
    ...(hasContenders ? ['rounds', 'Jain'] : []),
    ...(hasRequests ? ['requests'] : []),
  ])
  for (const row of rows) {
    table.push([
      row.client,
      row.variant === '' ? row.who : `${row.who}, ${row.variant}`,
      row.perSecond.toFixed(0),
      row.ratio.toFixed(2),
      row.p50Ms.toFixed(3),
      row.p50Ratio.toFixed(2),
      spreadText(row.p50RatioSpread),
      row.p99Ms.toFixed(2),
      row.longestMs.toFixed(1),
      ...(hasContenders ? [row.longestWaitRounds.toFixed(2), row.jain?.toFixed(4) ?? ''] : []),
      ...(hasRequests ? [row.requestsEach?.toFixed(2) ?? ''] : []),
    ])
  }
  if (rows.length > 0) lines.push(table.toString())
  for (const failure of failures) {
    const { who, variant, client, reason } = failure
    const name = [who, variant, client].filter((word) => word !== '').join(', ')
    lines.push(`failed: ${name}: ${reason}`)
  }
  return lines.join('\n')
}

export function barsReport(results: readonly GroupResult[]): string {
  const bars = barsOf(results.flatMap(({ rows }) => rows))
  if (bars.length === 0) return 'no bars: Holdfast was in none of the groups'
  const table = newTable(['group', 'client', 'Holdfast, as a multiple or count', 'bar', 'seen', ''])
  for (const { group, client, what, note, wanted, figure, verdict } of bars) {
    const text = note === '' ? what : `${what} (${note})`
    table.push([
      group,
      client,
      text,
      wanted,
      figure.toFixed(figure > 0.99 && figure < 1 ? 4 : 2),
      verdict,
    ])
  }
  return `bars\n${table.toString()}`
}

function newTable(head: string[]): InstanceType<typeof Table> {
  const isText = (title: string): boolean => ['client', 'who', 'group', ''].includes(title)
  return new Table({
    head,
    colAligns: head.map((title) => (isText(title) || title.includes(',') ? 'left' : 'right')),
    style: { head: [], border: [], compact: true },
  })
}

function spreadText({ min, max }: Spread): string {
  return `${min.toFixed(2)} to ${max.toFixed(2)}`
}
