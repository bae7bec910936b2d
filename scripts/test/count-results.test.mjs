import { spawn } from 'node:child_process'
import { rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { createFolder, SCRIPTS, watch } from './helpers.mjs'

let folder

beforeEach(() => {
  folder = createFolder()
})

afterEach(() => rmSync(folder, { recursive: true, force: true }))

function leaveReport(name, passed, failed, files = []) {
  const report = {
    numPassedTests: passed,
    numFailedTests: failed,
    numPendingTests: 1,
    numTodoTests: 0,
    testResults: files,
  }
  writeFileSync(join(folder, `${name}.json`), JSON.stringify(report))
}

function leaveStep(name, code) {
  writeFileSync(join(folder, `${name}.exit`), `${code}\n`)
}

async function count() {
  const args = [join(SCRIPTS, 'lib/count-results.mjs'), folder]
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'pipe'] })
  const { code, stdout } = await watch(child).ended
  return { code, last: stdout.trimEnd().split('\n').at(-1), stdout }
}

describe('the closing line of the gate', () => {
  it('counts tests of both runs and each further step', async () => {
    leaveReport('node20', 10, 0)
    leaveReport('node22', 5, 0)
    for (const step of ['test', 'lint', 'types']) leaveStep(step, 0)

    expect(await count()).toMatchObject({ code: 0, last: '17 passed, 0 failed' })
  })

  it('fails with a failed test, and with a failed step', async () => {
    leaveReport('node20', 10, 1)
    leaveStep('test', 1)
    leaveStep('lint', 1)

    expect(await count()).toMatchObject({ code: 1, last: '10 passed, 2 failed' })
  })

  // A set-up that fails leaves no report, and no report must not look like a success.
  it('fails when no test ran', async () => {
    leaveStep('test', 0)
    leaveStep('lint', 0)

    expect(await count()).toMatchObject({ code: 1, last: '1 passed, 1 failed' })
  })

  // An unhandled rejection outside any test: every test passed, and the run failed.
  it('fails when the run failed and its report does not say why', async () => {
    leaveReport('node20', 10, 0)
    leaveStep('test', 1)

    expect(await count()).toMatchObject({ code: 1, last: '10 passed, 1 failed' })
  })

  it('fails with a file that could not be loaded, and with a report cut short', async () => {
    leaveReport('node20', 10, 0, [{ name: 'x.test.ts', status: 'failed', assertionResults: [] }])
    writeFileSync(join(folder, 'node22.json'), '{"numPassed')

    const { code, last, stdout } = await count()

    expect({ code, last }).toEqual({ code: 1, last: '10 passed, 2 failed' })
    expect(stdout).toContain('x.test.ts failed')
  })
})
