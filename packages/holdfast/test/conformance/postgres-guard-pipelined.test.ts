import { afterAll, beforeAll, describe, it } from 'vitest'
import { testGuard } from '../../src/testkit/guard-suite.ts'
import {
  isCommit,
  openInFlight,
  type PostgresStand,
  startPostgresStand,
} from '../support/postgres.ts'

let stand: PostgresStand

beforeAll(async () => {
  stand = await startPostgresStand()
})

afterAll(() => stand.stop())

testGuard(
  { describe, it },
  {
    title: 'postgres by pg, pipelined',
    port: () => stand.server.port,
    isCommit,
    isolations: ['read committed', 'repeatable read', 'serializable'],
    startsEarly: true,
    // Behind a proxy a check decides itself when connections are made.
    open: (request) =>
      request.port === undefined ? openInFlight(stand, request) : stand.open(request, true),
  },
)
