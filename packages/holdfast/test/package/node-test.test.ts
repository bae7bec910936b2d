/** The conformance suite from the published package, under the runner that Node brings along. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { installed, type Outcome, packedTarballs, runNode } from './folders.ts'

const { holdfast } = packedTarballs()

/** What the author of a backend writes; `made` is the expression that makes one. */
function suite(made: string): string {
  return `
import { describe, it } from 'node:test'
import { memoryBackend } from 'holdfast'
import { testBackend } from 'holdfast/testkit'

const open = async () => {
  const both = ${made}
  return { ours: both, theirs: both, close: () => both.close() }
}
testBackend({ describe, it }, { title: 'memory', ttlMsMin: 50, open })
`
}

async function runSuite(made: string): Promise<Outcome & { count(what: string): number }> {
  const folder = await installed(holdfast)
  const file = join(folder, 'backend.test.mjs')
  writeFileSync(file, suite(made))
  const outcome = await runNode(folder, '--test', '--test-reporter=tap', file)
  const count = (what: string): number =>
    Number(new RegExp(`^# ${what} (\\d+)$`, 'm').exec(outcome.output)?.[1] ?? Number.NaN)
  return { ...outcome, count }
}

// The accident: a suite that imports a runner of its own can only be used with that one, and pulls
// it into the package.
it('the backend suite runs under node:test, from the tarball, with no other package', async () => {
  const { code, output, count } = await runSuite('memoryBackend()')
  expect({ code, output }).toMatchObject({ code: 0 })
  expect(count('pass')).toBeGreaterThanOrEqual(60)
  // Memory keeps no queue over processes, and no places in one; nothing else is left out.
  const skips = output.match(/# SKIP .*/g) ?? []
  expect([...new Set(skips)].sort()).toEqual([
    "# SKIP capabilities.order is 'queue-per-process'",
    '# SKIP the backend has no acquireInTurn',
  ])
  expect(count('skipped')).toBe(skips.length)
  expect(count('fail')).toBe(0)
})

// The accident: assertions that a foreign runner does not see leave a broken backend green.
it('a backend that breaks the contract fails there', async () => {
  const raisesNothing = 'Object.assign(memoryBackend(), { raise: async () => {} })'
  const { code, output, count } = await runSuite(raisesNothing)
  expect(code).toBe(1)
  expect(count('fail')).toBe(2)
  expect(output).toMatch(/not ok \d+ - raise lifts later tokens above a floor/)
})

// The accident: a store without a push fails a whole suite, or skips without saying what it lacks.
it('a skip names what the backend lacks', async () => {
  const polls = `Object.assign(memoryBackend(), {
    capabilities: { ...memoryBackend().capabilities, wakeUp: 'poll' },
    wakeUp: undefined,
    handOver: undefined,
  })`
  const { code, output, count } = await runSuite(polls)
  expect({ code, output }).toMatchObject({ code: 0 })
  expect(count('skipped')).toBeGreaterThan(0)
  expect(output).toContain('# SKIP the backend has no handOver')
  expect(output).toContain("# SKIP capabilities.wakeUp is 'poll'")
})
