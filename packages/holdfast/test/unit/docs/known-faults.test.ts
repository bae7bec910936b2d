import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'
import { readRepository } from '../tidy/repository.ts'

const ROOT = new URL('../../../../../', import.meta.url)
const read = (path: string): string => readFileSync(fileURLToPath(new URL(path, ROOT)), 'utf8')

const rows = [...read('docs/known-faults.md').matchAll(/^\| (B\d{3}) \|.*\| ([^|]+) \|$/gm)].map(
  ([, number = '', tests = '']) => ({
    number,
    files: [...tests.matchAll(/\]\(\.\.\/([^)]+)\)/g)].map(([, path = '']) => path),
  }),
)

// A table that names a test which stands there no more is worse than none.
it('every known fault names files whose tests name it', () => {
  expect(rows.length).toBeGreaterThan(60)
  for (const { number, files } of rows) {
    expect(files, number).not.toEqual([])
    for (const file of files) expect(read(file), `${file} tests ${number}`).toContain(number)
  }
})

// The accident: a test for one more fault is written, and the page goes on saying that there is none.
it('every test file that names a fault stands in its row', () => {
  const listed = rows.flatMap(({ number, files }) => files.map((file) => `${number} in ${file}`))
  const named = readRepository()
    .filter(({ path }) => /\.test\.m?ts$/.test(path))
    .flatMap(({ path, text }) =>
      [...new Set(text.match(/\bB\d{3}\b/g))].map((number) => `${number} in ${path}`),
    )
  expect(named.length).toBeGreaterThan(60)
  expect(named.filter((one) => !listed.includes(one))).toEqual([])
})
