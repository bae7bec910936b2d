import { afterAll, beforeAll, describe, it } from 'vitest'
import { testGuard } from '../../src/testkit/guard-suite.ts'
import { sqliteDrivers } from '../support/sqlite-drivers.ts'
import { type SqliteStand, sqliteHarness, startSqliteStand } from '../support/sqlite-stand.ts'

for (const driver of sqliteDrivers()) {
  for (const journal of ['WAL', 'DELETE'] as const) {
    describe(`${driver.name}, ${journal}`, () => {
      let stand: SqliteStand
      beforeAll(async () => {
        stand = await startSqliteStand(driver, journal)
      })
      afterAll(() => stand.stop())
      testGuard(
        { describe, it },
        sqliteHarness(driver, journal, () => stand),
      )
    })
  }
}
