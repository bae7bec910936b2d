/** The same tests with each driver of PostgreSQL. */
import type { GuardRequest } from '../../src/testkit/guard-suite-harness.ts'
import { type OpenSql, openInFlight, type PostgresStand } from './postgres.ts'
import { openPostgresJs } from './postgres-js.ts'

export const DRIVERS = ['pg', 'postgres.js'] as const
/** And with `pg` in pipeline mode, where the guard begins in one flight. */
export const FORMS = [...DRIVERS, 'pg, pipelined'] as const
export type FormName = (typeof FORMS)[number]

/** What a transaction is, only the guard's own `run` needs to know. */
export async function openBy(
  form: FormName,
  stand: PostgresStand,
  request: GuardRequest = {},
): Promise<OpenSql<unknown>> {
  if (form === 'postgres.js') return openPostgresJs(stand, request)
  return form === 'pg' ? stand.open(request) : openInFlight(stand, request)
}
