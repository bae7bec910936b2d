import { describe, it } from 'vitest'
import { testElection } from '../../src/testkit/election-suite.ts'
import { sqliteDrivers } from '../support/sqlite-drivers.ts'
import { openPair, ROUNDING_MS } from '../support/sqlite-locks.ts'

for (const driver of sqliteDrivers()) {
  const open = () => openPair(driver)
  const shared = { ttlMsMin: 100, roundingMs: ROUNDING_MS }
  testElection({ describe, it }, { ...shared, title: driver.name, open })
}
