import { expect, test } from 'vitest'
import { barText, medianBar, quantile } from '../../src/lab/bars.ts'
import { jsonReport } from '../../src/lab/report/json.ts'
import { recordPage } from '../../src/lab/report/record.ts'
import { tableReport } from '../../src/lab/report/table.ts'
import { METRICS, madeUpArm, madeUpDocument, madeUpResult } from './fixtures/made-up-report.ts'

const what = 'p50, as a multiple of that with all alive'

test('a median is compared with the median of the others, and its parts tell the noise', () => {
  // One slow second of a machine is in one part, and not in the ratio.
  const figures = Array.from({ length: 60 }, (_, at) => (at < 20 ? 30 : 11))
  const base = Array.from({ length: 60 }, () => 10)
  expect(medianBar(what, 1.2, figures, base)).toEqual({
    ...{ what, bar: 1.2, ratio: 1.1, spread: [1.1, 3], answer: 'OK' },
  })
  expect(medianBar(what, 1.05, figures, base)).toMatchObject({ answer: 'SHORT' })
  // Exactly at the bar is within it.
  expect(medianBar(what, 1.1, figures, base)).toMatchObject({ answer: 'OK' })
})

test('without figures, or without others, there is no bar', () => {
  // A ratio of nothing would be OK.
  expect(medianBar(what, 1.2, [], [1])).toBeNull()
  expect(medianBar(what, 1.2, [1], [])).toBeNull()
})

test('a quantile is one of the figures, the smallest that the share does not exceed', () => {
  const figures = Array.from({ length: 200 }, (_, at) => 200 - at)
  expect([0.5, 0.99, 1].map((share) => quantile(figures, share))).toEqual([100, 198, 200])
  expect(quantile([], 0.5)).toBe(0)
  expect(figures[0]).toBe(200)
})

test('every report tells a bar that was missed, and the verdict is what it was', () => {
  // A bar that nobody sees is none, and one that decides breaks on a busy machine.
  const bar = { what, ratio: 1.31, spread: [1.2, 1.4], bar: 1.2, answer: 'SHORT' } as const
  const arm = madeUpArm({ name: 'redlock of 3, one hung', bars: [bar] })
  const result = madeUpResult({ arms: [arm] })
  const text = `SHORT: ${what}: 1.31 (1.2 to 1.4), bar 1.2`
  expect(barText(bar)).toBe(text)
  expect(tableReport(result, METRICS)).toContain(`redlock of 3, one hung: ${text}`)
  expect(tableReport(result, METRICS)).toContain('made-up holds')
  const document = madeUpDocument(result)
  expect(JSON.parse(jsonReport(document)).scenarios[0].arms[0].bars).toEqual([bar])
  expect(recordPage(document, 'x.json').replace(/\n\s+/g, ' ')).toContain(text)
  expect(JSON.parse(jsonReport(madeUpDocument(madeUpResult()))).scenarios[0].arms[0].bars).toEqual(
    [],
  )
})
