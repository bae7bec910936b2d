/** What a person reads, and what a program reads. */
import Table from 'cli-table3'
import { barsOf } from './bars.ts'
import { fileNotes } from './groups/files.ts'
import { CROWDS } from './groups/processes.ts'
import type { Failure } from './measure.ts'
import type { Row, Spread } from './rows.ts'

export interface GroupResult {
  readonly group: string
  readonly rows: readonly Row[]
  readonly failures: readonly Failure[]
  /** What is not measured, and is no failure: a line each. */
  readonly notes: readonly string[]
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
  const notes = results.flatMap((result) => result.notes)
  return JSON.stringify({ ...head, rows, bars: barsOf(rows), failures, notes }, null, 2)
}

type Column = readonly [title: string, cell: (row: Row) => string]

const NAMES: readonly Column[] = [
  ['client', ({ client }) => client],
  ['who', ({ who, variant }) => (variant === '' ? who : `${who}, ${variant}`)],
  ['each s', ({ perSecond }) => perSecond.toFixed(0)],
  ['rate x', ({ ratio }) => ratio.toFixed(2)],
]

const REQUESTS: Column = ['requests', ({ requestsEach }) => requestsEach?.toFixed(2) ?? '']
const EVENTS: Column = ['events', ({ eventsEach }) => eventsEach?.toFixed(2) ?? '']
const SERVER: Column = ['server µs', ({ serverUsEach }) => serverUsEach?.toFixed(0) ?? '']
const CLIENT: Column = ['client µs', ({ clientUsEach }) => clientUsEach?.toFixed(0) ?? '']

/** Where nobody waits for anybody: how long it takes. */
const TIMES: readonly Column[] = [
  ...NAMES,
  ['p50 ms', ({ p50Ms }) => p50Ms.toFixed(3)],
  ['p50 x', ({ p50Ratio }) => p50Ratio.toFixed(2)],
  ['spread of p50 x', ({ p50RatioSpread }) => spreadText(p50RatioSpread)],
  ['p99 ms', ({ p99Ms }) => p99Ms.toFixed(2)],
  ['longest ms', ({ longestMs }) => longestMs.toFixed(1)],
]

/** Where contenders wait for each other: how long, and who gets how much. */
const WAITS: readonly Column[] = [
  ...NAMES,
  ['spread of rate x', ({ ratioSpread }) => spreadText(ratioSpread)],
  ['wait p50 ms', ({ p50Ms }) => p50Ms.toFixed(2)],
  ['p99', ({ p99Ms }) => p99Ms.toFixed(1)],
  ['longest', ({ longestMs }) => longestMs.toFixed(1)],
  ['rounds', ({ longestWaitRounds }) => longestWaitRounds.toFixed(2)],
  ['Jain', ({ jain }) => jain?.toFixed(4) ?? ''],
  ['least share', ({ smallestShare }) => smallestShare?.toFixed(2) ?? ''],
]

/** Where servers are gone: who is granted all the same, and what is left for them. */
const TRIES: readonly Column[] = [
  ['situation', ({ quorum }) => quorum?.situation ?? ''],
  ...NAMES.slice(0, 2),
  ['granted', ({ quorum }) => (quorum === null ? '' : `${quorum.granted}/${quorum.tries}`)],
  ['unanswered', ({ quorum }) => `${quorum?.unanswered ?? ''}`],
  ['p50 ms', ({ p50Ms }) => p50Ms.toFixed(3)],
  ['p50 x', ({ p50Ratio }) => p50Ratio.toFixed(2)],
  ['spread of p50 x', ({ p50RatioSpread }) => spreadText(p50RatioSpread)],
  ['p99 ms', ({ p99Ms }) => p99Ms.toFixed(2)],
  ['longest refusal ms', ({ quorum }) => quorum?.longestRefusalMs?.toFixed(0) ?? ''],
  ['requests left', ({ quorum }) => quorum?.backlog?.requests.toFixed(0) ?? ''],
  ['heap kB', ({ quorum }) => quorum?.heapKb?.toFixed(0) ?? ''],
]

export function groupReport({ group, rows, failures, notes }: GroupResult): string {
  const times = columnsOf(rows)
  const columns = [...times]
  if (rows.some(({ requestsEach }) => requestsEach !== null)) columns.push(REQUESTS)
  if (rows.some(({ eventsEach }) => eventsEach !== null)) columns.push(EVENTS)
  if (rows.some(({ serverUsEach }) => serverUsEach !== null)) columns.push(SERVER)
  if (rows.some(({ clientUsEach }) => clientUsEach !== null)) columns.push(CLIENT)
  const table = newTable(columns.map(([title]) => title))
  for (const row of rows) table.push(columns.map(([, cell]) => cell(row)))
  const first = group === 'redlock' ? 'a situation' : 'a client'
  const lines = [`${group}: ${rows[0]?.n ?? 0} runs, medians; x = of the first row of ${first}`]
  if (rows.length > 0) lines.push(table.toString())
  if (group === '3-processes') lines.push(...rows.flatMap(crowdLines))
  if (group.startsWith('sqlite')) lines.push(...fileNotes())
  for (const { who, variant, client, reason } of failures) {
    const name = [who, variant, client].filter((word) => word !== '').join(', ')
    lines.push(`failed: ${name}: ${reason}`)
  }
  lines.push(...notes)
  return lines.join('\n')
}

function columnsOf(rows: readonly Row[]): readonly Column[] {
  if (rows.some(({ quorum }) => quorum !== null)) return TRIES
  return rows.some(({ jain }) => jain !== null) ? WAITS : TIMES
}

/** Who of three processes got how much; the reference is one worker and has nothing to divide. */
function crowdLines({ who, client, shares }: Row): string[] {
  if (shares === null || shares.length < CROWDS.length) return []
  const total = shares.reduce((sum, share) => sum + share, 0)
  let firstWorker = 0
  const parts = CROWDS.map((workers) => {
    const own = shares.slice(firstWorker, firstWorker + workers)
    firstWorker += workers
    const got = own.reduce((sum, share) => sum + share, 0) / total
    return `${workers} of a process got ${percent(got)} (fair: ${percent(workers / shares.length)})`
  })
  return [`${who}, ${client}: ${parts.join('; ')}`]
}

function percent(share: number): string {
  return `${(share * 100).toFixed(0)} %`
}

export function barsReport(results: readonly GroupResult[]): string {
  const bars = barsOf(results.flatMap(({ rows }) => rows))
  if (bars.length === 0) return 'no bars: there is no row of Holdfast'
  const table = newTable(['group', 'client', 'Holdfast', 'bar (accepted)', 'seen', ''])
  for (const { group, client, what, wanted, figure, verdict } of bars) {
    table.push([group, client, what, wanted, figureText(figure), verdict])
  }
  return `bars\n${table.toString()}`
}

/** Of what lies just below 1, two digits would show a 1. */
function figureText(figure: number): string {
  return figure.toFixed(figure > 0.99 && figure < 1 ? 4 : 2)
}

const TEXTS: readonly string[] = ['situation', 'client', 'who', 'group', 'Holdfast', '']

function newTable(head: string[]): InstanceType<typeof Table> {
  return new Table({
    head,
    colAligns: head.map((title) => (TEXTS.includes(title) ? 'left' : 'right')),
    style: { head: [], border: [], compact: true },
  })
}

function spreadText({ min, max }: Spread): string {
  return `${min.toFixed(2)} to ${max.toFixed(2)}`
}
