import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { testGuard } from '../../src/testkit/guard-suite.ts'
import { type FaultProxy, startProxy } from '../../src/testkit/proxy.ts'
import { isCommit, type PostgresStand, startPostgresStand } from '../support/postgres.ts'

let stand: PostgresStand
let proxy: FaultProxy

beforeAll(async () => {
  stand = await startPostgresStand()
  proxy = await startProxy(stand.server.port)
})

afterAll(async () => {
  await proxy.close()
  await stand.stop()
})

// A proxy that changes what passes would make every experiment with its faults worthless.
testGuard(
  { describe, it },
  {
    title: 'postgres by pg behind a proxy',
    port: () => proxy.port,
    isCommit,
    isolations: ['read committed', 'repeatable read', 'serializable'],
    open: (request) => stand.open({ ...request, port: request.port ?? proxy.port }),
  },
)

it('these connections went through the proxy', () => {
  expect(proxy.acceptedCount).toBeGreaterThan(50)
})
