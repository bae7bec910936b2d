import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'

const RUN = fileURLToPath(new URL('../../examples/run.mjs', import.meta.url))
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

test('an unknown name is answered with the names that there are', async () => {
  for (const args of [[], ['no-such'], ['first-lock', 'more']]) {
    const { code, stderr } = await runExample(...args)
    expect(code).toBe(2)
    expect(stderr).toMatch(/^usage: node examples\/run\.mjs .*\bfirst-lock\|.*\bquick-start\b/)
  }
})
