import { afterAll, beforeAll, expect, it } from 'vitest'
import { fenced } from '../../src/testkit/guard-suite-harness.ts'
import { startProxy } from '../../src/testkit/proxy.ts'
import { type PostgresStand, startPostgresStand } from '../support/postgres.ts'
import { FORMS, openBy } from '../support/postgres-drivers.ts'

let stand: PostgresStand

beforeAll(async () => {
  stand = await startPostgresStand()
})

afterAll(() => stand.stop())

/** The claim's first time on a connection may take one more. */
const WARM_UP = 3

// Over a network each round trip costs more than all that the guard computes.
it.each(FORMS)(
  'a guarded transaction by %s takes no more round trips than a plain one',
  async (driver) => {
    const proxy = await startProxy(stand.server.port)
    const side = await openBy(driver, stand, { port: proxy.port })
    let count = 0
    let last = 'toClient'
    proxy.onBytes = (direction) => {
      // What is written in several pieces without an answer in between is one flight.
      if (direction === 'toServer' && last === 'toClient') count += 1
      last = direction
    }
    const work = async (tx: unknown): Promise<void> => {
      await side.run(tx, "SELECT entry FROM entries WHERE resource = 'trips'")
      await side.run(tx, "INSERT INTO entries (resource, entry) VALUES ('trips', 'one')")
    }
    const plain = async (): Promise<void> => {
      const { tx, commit } = await side.begin()
      await work(tx)
      await commit()
    }
    const guarded = (): Promise<void> => side.guard.transaction(fenced(`trips:${driver}`, 5n), work)
    const tripsOf = async (transaction: () => Promise<void>): Promise<number> => {
      for (let round = 0; round < WARM_UP; round++) await transaction()
      count = 0
      await transaction()
      return count
    }
    // BEGIN, read, write, COMMIT; the claim travels with BEGIN, and in a pipeline the read with both.
    expect(await tripsOf(plain)).toBe(4)
    expect(await tripsOf(guarded)).toBe(driver === 'pg, pipelined' ? 3 : 4)
    await side.close()
    await proxy.close()
  },
)
