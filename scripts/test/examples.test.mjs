import { execFile } from 'node:child_process'
import { readdirSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'

const RUN = fileURLToPath(new URL('../../examples/run.mjs', import.meta.url))
const FOLDER = fileURLToPath(new URL('../../examples', import.meta.url))
const RUN_MS_MAX = 50_000

/** Never rejects: the exit code is what is looked at. */
function runExample(...args) {
  return new Promise((resolve) => {
    execFile(process.execPath, [RUN, ...args], { timeout: RUN_MS_MAX }, (error, stdout, stderr) => {
      resolve({ code: error === null ? 0 : error.code, stdout, stderr })
    })
  })
}

// The accident: the first command that a newcomer tries is the one that nobody tried.
test('an example runs by its name, and needs no server if it uses none', async () => {
  const { code, stdout, stderr } = await runExample('first-lock')
  expect({ code, stderr }).toMatchObject({ code: 0 })
  expect(stdout).toMatch(/^held report:daily for \d+ ms at least\n$/)
})

test('without a name all are listed, each with what it shows', async () => {
  const { code, stdout } = await runExample()
  expect(code).toBe(0)
  const names = readdirSync(FOLDER).flatMap((file) => /^(.+)\.ts$/.exec(file)?.[1] ?? [])
  const listed = stdout
    .split('\n')
    .flatMap((line) => /^ {2}(\S+) {2,}(\S.{5,})$/.exec(line)?.[1] ?? [])
  expect(listed).toEqual(names.sort())
})

test.each([
  [['no-such'], 'there is no example "no-such"'],
  [['first-lock', 'more'], 'one name, not 2'],
])('%j is answered with what is wrong, and where the names are', async (args, wrong) => {
  const { code, stderr } = await runExample(...args)
  expect(code).toBe(2)
  expect(stderr).toBe(`${wrong}; node examples/run.mjs lists them\n`)
})
