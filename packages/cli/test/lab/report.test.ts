import { readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { jsonReport } from '../../src/lab/report/json.ts'
import { recordPage } from '../../src/lab/report/record.ts'
import { recordObstacle } from '../../src/lab/report/record-files.ts'
import { tableReport } from '../../src/lab/report/table.ts'
import { minutes, wrapped } from '../../src/lab/report/text.ts'
import { METRICS, madeUpArm, madeUpDocument, madeUpResult } from './fixtures/made-up-report.ts'

const widthOf = (text: string): number =>
  Math.max(...text.split('\n').map((line) => [...line].length))

describe('the table', () => {
  test('is a table where it fits', () => {
    // In a file or a pipe there is no width to keep to.
    const wide = tableReport(madeUpResult(), METRICS)
    expect(wide).toMatch(/lock only +│ no +│ +3 │ +3 │ +6 │ +3 │ +1\.3 s │ holds/)
    expect(tableReport(madeUpResult(), METRICS, widthOf(wide))).toBe(wide)
  })

  test.each([90, 60, 40, 24])('in a terminal of %i columns no line is wider', (columns) => {
    // A table that the terminal breaks anywhere is a heap of bars and figures.
    const narrow = tableReport(madeUpResult(), METRICS, columns)
    expect(widthOf(narrow)).toBeLessThanOrEqual(columns)
  })

  test('says the same as a list where it does not fit', () => {
    // Who has a narrow terminal needs the verdict and every figure too.
    const narrow = tableReport(madeUpResult(), METRICS, 80)
    expect(narrow).not.toContain('│')
    expect(narrow).toContain('* lock only: holds\n')
    expect(narrow).toContain(
      '    protected: no, rounds 3, lost updates 3, acknowledged 6, balance 3, 1.3 s\n',
    )
    expect(narrow).toContain('* lock + guard, pause inside: holds\n')
  })

  test('says why an arm does not hold, however narrow', () => {
    // The one line that somebody looks for.
    const broken = madeUpArm({ verdict: 'broken', roundsTrue: 2, breaches: ['round 1 lost one'] })
    const text = tableReport(madeUpResult({ verdict: 'broken', arms: [broken] }), METRICS, 50)
    expect(text.replace(/\n +/g, ' ')).toContain(
      'broken, "nothing is lost" is true of 2 of 3 rounds; 1 breaches round 1 lost one',
    )
  })

  test('says once why arms were skipped, however many', () => {
    // Eighteen lines with one reason hid the one arm that was broken.
    const skipped = (name: string, why: string) =>
      madeUpArm({ name, verdict: 'skipped', rounds: 0, skipped: why })
    const arms = [skipped('a', 'too long'), skipped('b', 'no gcc'), skipped('c', 'too long')]
    const lines = tableReport(madeUpResult({ arms }), METRICS).split('\n')
    expect(lines.filter((line) => line.includes('skipped,'))).toEqual([
      'a; c: skipped, too long',
      'b: skipped, no gcc',
    ])
  })
})

describe('the JSON', () => {
  test('has the fields that the page lists, and no others', () => {
    // A script was written for a field that the page names, or one that it does not name went away.
    const page = readFileSync(new URL('../../README.md', import.meta.url), 'utf8')
    const listed = /```\n(\{ commit[^`]+)```/.exec(page)?.[1]?.match(/[A-Za-z]+/g) ?? []
    const sqlite = { driver: 'better-sqlite3', version: '3.53.2' }
    const bar = { what: 'p50', ratio: 1.1, spread: [1, 1.2], bar: 1.2, answer: 'OK' } as const
    const arms = [madeUpArm({ bars: [bar] })]
    const document = { ...madeUpDocument(madeUpResult({ arms })), sqlite }
    const [scenario] = document.scenarios
    const [arm] = scenario?.arms ?? []
    const { machine, servers } = document
    const objects = [document, machine, servers, sqlite, scenario, arm, bar]
    const keys = objects.flatMap((object) => Object.keys(object ?? {}))
    expect([...new Set(keys)].sort()).toEqual([...new Set(listed)].sort())
    expect(JSON.parse(jsonReport(document))).toEqual(document)
  })
})

describe('words', () => {
  test('lines are broken between words, and nothing gets lost', () => {
    // A command that was cut in the middle of a flag cannot be copied.
    const line = 'one two three four five six seven'
    for (const width of [5, 9, 14, 100]) {
      const lines = wrapped(line, width)
      expect(lines.join(' ')).toBe(line)
      expect(lines.every((part) => part.length <= width)).toBe(true)
    }
    expect(wrapped('a verylongword b', 6)).toEqual(['a', 'verylongword', 'b'])
    expect(wrapped('  kept b', 7)).toEqual(['  kept', 'b'])
  })

  test('durations are told as people tell them', () => {
    // 187.4 s is no three minutes, and 59.6 s is no 60 s.
    expect([59_400, 59_600, 187_400, 300_000].map(minutes)).toEqual([
      ...['59 s', '1 min 0 s', '3 min 7 s', '5 min 0 s'],
    ])
  })
})

describe('the record', () => {
  test('has the run, every arm with its figures, and how to run it again', () => {
    // A record without commit, machine and command is an anecdote.
    const lacking = madeUpArm({ name: 'a|b', verdict: 'skipped', skipped: 'there is no gcc here' })
    const broken = madeUpArm({ verdict: 'broken', breaches: ['round 1 lost one\nand more'] })
    const other = madeUpResult({
      ...{ name: 'other', verdict: 'broken', arms: [lacking, broken] },
      errors: ['a worker died\n  at worker.ts'],
    })
    const page = recordPage(madeUpDocument(madeUpResult(), other), 'record.json')
    for (const part of [
      'Not all claims hold: other broken.',
      '| commit | `c0ffee` |',
      '| seed | 7 |',
      '| profile | full: 3 rounds of each arm, pause by sigstop |',
      '| began, took | 2026-01-02T03:04:05.678Z, 3 min 7 s |',
      '| machine | a CPU, 2 cores, 24 GiB, Linux 6.1.0 |',
      '| versions | Node v20.20.2, redis 7.0.15, postgres 15.10, etcd 3.4.23 |',
      '| to run it again | `npm run -s lab -- made-up --rounds 3 --seed 7` |',
      '## made-up: holds',
      '| lock only | no | 3 | 0 | 3 | 6 | 3 | 312.5 | 1.3 s | holds |',
      '* lock only: one update is lost',
      '## other: broken',
      '| a\\|b | yes |',
      'Skipped: there is no gcc here',
      'Wrong: round 1 lost one\n',
      '* ended before its time: a worker died\n',
    ]) {
      expect(page).toContain(part)
    }
    const lines = page.split('\n').filter((line) => !line.startsWith('|'))
    expect(widthOf(lines.join('\n'))).toBeLessThanOrEqual(120)
    expect(recordPage(madeUpDocument(madeUpResult()), 'r.json')).toContain(
      'All claims of its 1 scenarios hold.',
    )
  })

  test('is refused for what no commit names', () => {
    // A page that says "commit c0ffee" of something else.
    expect(recordObstacle('c0ffee')).toBeNull()
    expect(recordObstacle('c0ffee-dirty')).toContain('commit or remove them first')
    expect(recordObstacle('unknown')).toContain('this is not one')
  })
})
