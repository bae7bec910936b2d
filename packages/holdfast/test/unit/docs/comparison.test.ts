import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { ROOT } from '../tidy/repository.ts'
import { pageOf, tableUnder } from './pages.ts'

interface Row {
  readonly group: string
  readonly who: string
  readonly client: string
  readonly p50Ratio: number
  readonly requestsEach: number
  readonly longestWaitRounds: number
}

interface Bar {
  readonly group: string
  readonly client: string
  readonly what: string
  readonly wanted: string
  readonly figure: number
  readonly verdict: string
}

/** In the order of the columns; Redisson is not measured. */
const WHO = ['holdfast', 'redlock 5 beta', 'redis-semaphore', 'redlock-universal']

const record = JSON.parse(readFileSync(join(ROOT, 'docs/bench-record.json'), 'utf8')) as {
  readonly commit: string
  readonly failures: readonly unknown[]
  readonly rows: readonly Row[]
  readonly bars: readonly Bar[]
}

function rowOf(group: string, who: string): Row {
  const row = record.rows.find(
    (one) => one.group === group && one.client === 'ioredis' && one.who === who,
  )
  if (row === undefined) throw new Error(`the record has no row of ${who} in ${group}`)
  return row
}

// The accident: the code becomes faster or slower, or a figure is put in from another machine.
it('the measured cells of the comparison are those of the recorded run', () => {
  expect(record.commit).toMatch(/^[0-9a-f]{40}$/)
  expect(record.failures).toEqual([])
  const measured = [
    WHO.map((who) => rowOf('one-in-flight', who).p50Ratio.toFixed(2)),
    WHO.map((who) => rowOf('16-contenders', who).requestsEach.toFixed(2)),
    WHO.map((who) => rowOf('16-contenders', who).longestWaitRounds.toFixed(1)),
  ]
  const rows = tableUnder(pageOf('README.md'), '## Beside other lock libraries').slice(-3)
  expect(rows.map(([, ...cells]) => cells)).toEqual(
    measured.map((cells) => [...cells, 'not measured here']),
  )
})

// The accident: a bar is missed in the record, and the page leaves it out.
it('every bar of the recorded run stands on the page of the bench', () => {
  expect(record.bars.length).toBeGreaterThan(20)
  expect(tableUnder(pageOf('bench/README.md'), '## The recorded run')).toEqual(
    record.bars.map(({ group, client, what, wanted, figure, verdict }) => [
      ...[group, client, what, wanted, figure.toFixed(2), verdict],
    ]),
  )
})

// The accident: the bench gets another version, and the table goes on to speak of the old one.
it('the versions of the comparison are those that the bench installs', () => {
  const { packages } = JSON.parse(readFileSync(join(ROOT, 'bench/package-lock.json'), 'utf8'))
  const text = pageOf('README.md').text
  for (const [name, folder] of [
    ['redlock', 'redlock5'],
    ['redis-semaphore', 'redis-semaphore'],
    ['redlock-universal', 'redlock-universal'],
  ]) {
    expect(text).toContain(`| ${name} ${packages[`node_modules/${folder}`].version} |`)
  }
})
