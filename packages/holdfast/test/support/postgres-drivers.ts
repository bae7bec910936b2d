/** The same tests with each driver of PostgreSQL. */
import type { GuardRequest } from '../../src/testkit/guard-suite-harness.ts'
import type { OpenSql, PostgresStand } from './postgres.ts'
import { openPostgresJs } from './postgres-js.ts'

export const DRIVERS = ['pg', 'postgres.js'] as const
export type DriverName = (typeof DRIVERS)[number]

/** What a transaction is, only the guard's own `run` needs to know. */
export async function openBy(
  driver: DriverName,
  stand: PostgresStand,
  request: GuardRequest = {},
): Promise<OpenSql<unknown>> {
  return driver === 'pg' ? stand.open(request) : openPostgresJs(stand, request)
}
