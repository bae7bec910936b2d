import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterEach, expect, it } from 'vitest'

const path = (relative) => fileURLToPath(new URL(relative, import.meta.url))
const VITEST = path('../../node_modules/vitest/vitest.mjs')
const REPORTER = path('../lib/skip-reporter.mjs')

const folder = mkdtempSync(join(tmpdir(), 'holdfast-skips-'))
afterEach(() => rmSync(folder, { recursive: true, force: true }))

// The gate's last lines said that the reasons stood above, and no reason did.
it('a test that was left out is reported with its reason, and one that ran is not', () => {
  symlinkSync(path('../../node_modules'), join(folder, 'node_modules'))
  writeFileSync(
    join(folder, 'some.test.mjs'),
    `import { expect, it } from 'vitest'
     it('runs', () => expect(1).toBe(1))
     it('is left out', (test) => test.skip('the store cannot wake anybody'))`,
  )
  const args = [VITEST, 'run', '--root', folder, `--reporter=${REPORTER}`]
  const stdout = execFileSync(process.execPath, args, { encoding: 'utf8' })
  expect(stdout).toContain('skipped: is left out: the store cannot wake anybody')
  expect(stdout).not.toContain('skipped: runs')
})
