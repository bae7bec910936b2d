/**
 * Adds up what a gate run found: `node scripts/lib/count-results.mjs <folder>`.
 *
 * In the folder lie vitest's JSON reports (`*.json`) and, for each further step, a file
 * `<step>.exit` with its exit code. The last line of the output is `N passed, N failed`; the exit
 * code is 1 if anything failed or no test passed.
 *
 * A run that failed in a way its report does not show counts as one failure: a crash leaves no
 * report, and an error outside any test leaves one that looks well.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { pathToFileURL } from 'node:url'

/** @returns `{passed, failed, skipped, problems}`; problems are lines for the reader. */
export function countResults(folder) {
  const total = { passed: 0, failed: 0, skipped: 0, problems: [] }
  const names = readdirSync(folder).sort()
  for (const name of names.filter((entry) => entry.endsWith('.json'))) {
    addReport(total, basename(name, '.json'), readReport(join(folder, name)))
  }
  const testsFailed = total.failed > 0
  if (total.passed + total.failed === 0) fail(total, 'no test ran')
  for (const name of names.filter((entry) => entry.endsWith('.exit'))) {
    const step = basename(name, '.exit')
    const code = readFileSync(join(folder, name), 'utf8').trim()
    // The step `test` is the tests themselves: it counts only when it failed and they did not.
    if (step === 'test') {
      if (code !== '0' && !testsFailed) fail(total, `the tests ended with exit code ${code}`)
    } else if (code === '0') total.passed++
    else fail(total, `${step} ended with exit code ${code}`)
  }
  return total
}

function addReport(total, name, report) {
  if (report === null) {
    fail(total, `${name}: the report cannot be read`)
    return
  }
  total.passed += report.numPassedTests
  total.failed += report.numFailedTests
  total.skipped += report.numPendingTests + report.numTodoTests
  for (const file of report.testResults) {
    // A file that could not be loaded has no tests to count.
    const hasFailedTest = file.assertionResults.some(({ status }) => status === 'failed')
    if (file.status === 'failed' && !hasFailedTest) fail(total, `${name}: ${file.name} failed`)
  }
}

function fail(total, problem) {
  total.failed++
  total.problems.push(problem)
}

function readReport(path) {
  try {
    const report = JSON.parse(readFileSync(path, 'utf8'))
    return Array.isArray(report.testResults) ? report : null
  } catch {
    return null
  }
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  const { passed, failed, skipped, problems } = countResults(process.argv[2])
  for (const problem of problems) console.log(`FAILED: ${problem}`)
  if (skipped > 0) console.log(`${skipped} tests were skipped; their reasons stand above`)
  console.log(`${passed} passed, ${failed} failed`)
  process.exitCode = failed > 0 || passed === 0 ? 1 : 0
}
