import { afterAll, beforeAll, describe, it } from 'vitest'
import { testGuard } from '../../src/testkit/guard-suite.ts'
import { isCommit, type PostgresStand, startPostgresStand } from '../support/postgres.ts'
import { openPostgresJs } from '../support/postgres-js.ts'

let stand: PostgresStand

beforeAll(async () => {
  stand = await startPostgresStand()
})

afterAll(() => stand.stop())

testGuard(
  { describe, it },
  {
    title: 'postgres by postgres.js',
    port: () => stand.server.port,
    isCommit,
    isolations: ['read committed', 'repeatable read', 'serializable'],
    open: async (request) => openPostgresJs(stand, request),
  },
)
