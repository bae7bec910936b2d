/**
 * The conformance suite of `TransactionalGuard`: what makes a guard refuse a superseded holder.
 *
 * Every property is a test of its own, on guards with connections of their own, which is how a store
 * sees processes. Nothing is mocked: the harness opens the real store, and faults of the network are
 * made by a proxy in front of it. Durations are waited for, never raced against.
 */
import type { TestRunner } from './backend-harness.ts'
import { testClaims } from './guard-suite-claims.ts'
import { testColumns } from './guard-suite-columns.ts'
import { testColumnFaults } from './guard-suite-columns-faults.ts'
import { testCommit } from './guard-suite-commit.ts'
import { testConcurrency } from './guard-suite-concurrency.ts'
import { type GuardHarness, guardChecksOf } from './guard-suite-harness.ts'
import { testPauses } from './guard-suite-pauses.ts'
import { testTransactions } from './guard-suite-transactions.ts'

/**
 * Registers every property of the `TransactionalGuard` contract as a test.
 *
 * Checks do not share names, so that they may share a store. Each needs about a minute of patience at
 * most: set the runner's time-out to that.
 *
 * @param runner `describe` and `it` of vitest, or of `node:test`.
 */
export function testGuard<Tx>(runner: TestRunner, harness: GuardHarness<Tx>): void {
  const check = guardChecksOf(runner, harness)
  runner.describe(`${harness.title}: guard contract`, () => {
    testClaims(check)
    testConcurrency(check)
    testTransactions(check)
    testPauses(check)
    testCommit(check)
    testColumns(check)
    testColumnFaults(check)
  })
}
