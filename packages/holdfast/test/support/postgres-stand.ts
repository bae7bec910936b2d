/** One private PostgreSQL for a file of tests, and names that no two of its tests share. */
import { afterAll, beforeAll } from 'vitest'
import { type PostgresStand, startPostgresStand } from './postgres.ts'

export interface StandForFile extends PostgresStand {
  newName(): string
}

/** Registers the hooks of the file that calls it; the server is there once they have run. */
export function standOnPostgres(prefix: string): StandForFile {
  let stand: PostgresStand
  let names = 0
  beforeAll(async () => {
    stand = await startPostgresStand()
  })
  afterAll(() => stand?.stop())
  return {
    get server() {
      return stand.server
    },
    open: (request, isPipelined) => stand.open(request, isPipelined),
    stop: () => stand.stop(),
    newName: () => `${prefix}:${++names}`,
  }
}
