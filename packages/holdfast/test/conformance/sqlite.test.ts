import { describe, it } from 'vitest'
import { testBackend } from '../../src/testkit/backend-suite.ts'
import { sqliteDrivers } from '../support/sqlite-drivers.ts'
import { openPair, ROUNDING_MS } from '../support/sqlite-locks.ts'

const shared = { ttlMsMin: 100, roundingMs: ROUNDING_MS }

for (const driver of sqliteDrivers()) {
  for (const synchronous of ['full', 'normal'] as const) {
    const open = () => openPair(driver, { synchronous })
    testBackend({ describe, it }, { ...shared, title: `${driver.name}, ${synchronous}`, open })
  }
}
