import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'

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
