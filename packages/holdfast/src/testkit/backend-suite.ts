/**
 * The conformance suite of `Backend`: what makes a store a store for locks.
 *
 * Every property of the contract in core/backend.ts is registered as a test of its own, on two
 * backends with a connection each, which is how a store sees two processes. Nothing is mocked: the
 * harness opens the real thing. Durations are waited for, never raced against, so that a slow
 * machine makes the suite slow and not red.
 */
import { type BackendHarness, checksOf, type TestRunner } from './backend-harness.ts'
import { testCancel } from './backend-suite-cancel.ts'
import { testContention } from './backend-suite-contention.ts'
import { testEngine } from './backend-suite-engine.ts'
import { testGrants } from './backend-suite-grants.ts'
import { testHandOver } from './backend-suite-handover.ts'
import { testLifetimes } from './backend-suite-lifetimes.ts'
import { testLooking } from './backend-suite-looking.ts'
import { testQueue } from './backend-suite-queue.ts'
import { testRelease } from './backend-suite-release.ts'
import { testRenewal } from './backend-suite-renewal.ts'
import { testRevoke } from './backend-suite-revoke.ts'
import { testTokens } from './backend-suite-tokens.ts'
import { testTurns } from './backend-suite-turns.ts'
import { testWaking } from './backend-suite-waking.ts'

/**
 * Registers every property of the `Backend` contract as a test.
 *
 * A skip names the capability that the backend lacks. Needs about a minute of patience per test at
 * most: set the runner's time-out to that.
 *
 * @param runner `describe` and `it` of vitest, or of `node:test`.
 */
export function testBackend(runner: TestRunner, harness: BackendHarness): void {
  const check = checksOf(runner, harness)
  runner.describe(`${harness.title}: backend contract`, () => {
    testGrants(check)
    testTokens(check)
    testRenewal(check)
    testRelease(check)
    testCancel(check)
    testHandOver(check)
    testQueue(check)
    testTurns(check)
    testRevoke(check)
    testLifetimes(check)
    testLooking(check)
    testWaking(check)
    testContention(check)
    testEngine(check)
  })
}
