import type pg from 'pg'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import {
  type PostgresGuard,
  type PostgresGuardOptions,
  postgresGuard,
} from '../../src/guards/postgres.ts'
import { fenced, outcome } from '../../src/testkit/guard-suite-harness.ts'
import { codeOf, openPool, type PostgresStand, startPostgresStand } from '../support/postgres.ts'
import { DRIVERS } from '../support/postgres-drivers.ts'
import { openSql } from '../support/postgres-js.ts'

let stand: PostgresStand
let admin: pg.Pool
const ends: (() => Promise<unknown>)[] = []

beforeAll(async () => {
  stand = await startPostgresStand()
  admin = openPool(stand.server, stand.server.port)
})

afterEach(async () => {
  await Promise.all(ends.splice(0).map((end) => end()))
})

afterAll(async () => {
  await admin.end()
  await stand.stop()
})

/** A role that may log in and nothing else. */
async function newRole(name: string): Promise<string> {
  await admin.query(`CREATE ROLE ${name} LOGIN`)
  return name
}

type Connecting = Readonly<{ user?: string; isReadOnly?: boolean }>

/** A guard with connections of its own, which end with the test. */
function guardBy(
  driver: (typeof DRIVERS)[number],
  options: PostgresGuardOptions,
  { isReadOnly, ...user }: Connecting = {},
): PostgresGuard<unknown> {
  const { server } = stand
  if (driver === 'pg') {
    const setting = isReadOnly ? { options: '-c default_transaction_read_only=on' } : {}
    const pool = openPool(server, server.port, { ...user, ...setting })
    ends.push(() => pool.end())
    return postgresGuard(pool, options)
  }
  const setting = isReadOnly ? { connection: { default_transaction_read_only: true } } : {}
  const sql = openSql(stand, server.port, { ...user, ...setting })
  ends.push(() => sql.end({ timeout: 1 }))
  return postgresGuard(sql, options)
}

describe.each(DRIVERS)('migrate by %s', (driver) => {
  const suffix = driver.replace('.', '_')

  // Ten processes start at once after a deployment, and all but one died of a duplicate key.
  it('may run in many processes at the same time, on nothing', async () => {
    for (let round = 0; round < 6; round++) {
      const schema = `many_${round}_${suffix}`
      const guards = Array.from({ length: 10 }, () => guardBy(driver, { schema }))
      const runs = guards.map((guard) => guard.migrate())
      // Somebody who creates the same by hand, without our lock.
      const byHand = outcome(admin.query(postgresGuard(admin, { schema }).ddl))
      await Promise.all(runs)
      await byHand
      expect(await guards[0]?.claim(fenced('a', 5n))).toEqual({ seq: 1n })
      await Promise.all(ends.splice(0).map((end) => end()))
    }
  })

  it('changes nothing where all is there', async () => {
    const guard = guardBy(driver, {})
    const lease = fenced(`kept ${suffix}`, 5n)
    await guard.claim(lease)
    await guard.migrate()
    await guard.migrate()
    expect(await guard.claim(lease)).toEqual({ seq: 2n })
  })

  // The usual case in production: the application's role may not create tables.
  it('tells a role that may not create what to run, and accepts what was run for it', async () => {
    const user = await newRole(`app_${suffix}`)
    const guard = guardBy(driver, { schema: `locked "down" ${suffix}` }, { user })
    const refused = await outcome(guard.migrate())
    expect(codeOf(refused)).toBe('BACKEND_UNAVAILABLE')
    const { why, message } = (refused as PromiseRejectedResult).reason
    expect(why).toBe('no-permission')
    expect(message).toContain(guard.ddl)
    await admin.query(guard.ddl)
    const quoted = `"locked ""down"" ${suffix}"`
    await admin.query(`GRANT USAGE ON SCHEMA ${quoted} TO ${user}`)
    await admin.query(`GRANT SELECT, INSERT, UPDATE ON ${quoted}.fences TO ${user}`)
    await guard.migrate()
    expect(await guard.claim(fenced('a', 5n))).toEqual({ seq: 1n })
  })

  it('names what is wrong with a table of another shape, and leaves it alone', async () => {
    const schema = `taken_${suffix}`
    await admin.query(`CREATE SCHEMA ${schema}`)
    await admin.query(`CREATE TABLE ${schema}.fences (resource text, token integer)`)
    const refused = await outcome(guardBy(driver, { schema }).migrate())
    expect(codeOf(refused)).toBe('INVALID_ARGUMENT')
    expect(String((refused as PromiseRejectedResult).reason)).toContain(
      '"token" is of type integer',
    )
    const { rows } = await admin.query(
      "SELECT format_type(atttypid, atttypmod) AS type FROM pg_attribute WHERE attrelid = $1::regclass AND attname = 'token'",
      [`${schema}.fences`],
    )
    expect(rows).toEqual([{ type: 'integer' }])
  })

  it('does not wait for ever for another one', async () => {
    const other = await admin.connect()
    await other.query('BEGIN')
    await other.query('SELECT pg_advisory_xact_lock(1752132708, 1717662580)')
    const guard = guardBy(driver, { schema: `waiting_${suffix}`, timeoutMs: 200 })
    expect(codeOf(await outcome(guard.migrate()))).toBe('GUARD_BUSY')
    await other.query('ROLLBACK')
    other.release()
    await guard.migrate()
  })
})

describe.each(DRIVERS)('a guard that is not set up, by %s,', (driver) => {
  const suffix = driver.replace('.', '_')

  it('says that its table is missing, and what to do', async () => {
    const guard = guardBy(driver, { schema: `nowhere_${suffix}` })
    let runs = 0
    const calls = [
      guard.claim(fenced('a', 5n)),
      guard.transaction(fenced('b', 5n), async () => {
        runs += 1
      }),
      guard.adopt(fenced('c', 5n)),
      guard.highest('a'),
    ]
    for (const refused of await Promise.all(calls.map((call) => outcome<unknown>(call)))) {
      expect(codeOf(refused)).toBe('INVALID_ARGUMENT')
      expect(String((refused as PromiseRejectedResult).reason)).toContain('guard.migrate()')
    }
    expect(runs).toBe(0)
    // The connections learned nothing wrong by it.
    await guard.migrate()
    expect(await guard.claim(fenced('a', 5n))).toEqual({ seq: 1n })
    expect(await guard.claim(fenced('a', 5n))).toEqual({ seq: 2n })
  })

  it('says when its role may not write, or the server is a standby', async () => {
    const user = await newRole(`reader_${suffix}`)
    await admin.query(`GRANT USAGE ON SCHEMA holdfast TO ${user}`)
    await admin.query(`GRANT SELECT ON holdfast.fences TO ${user}`)
    const refused = await outcome(guardBy(driver, {}, { user }).claim(fenced('a', 5n)))
    expect((refused as PromiseRejectedResult).reason).toMatchObject({ why: 'no-permission' })
    const standby = guardBy(driver, {}, { isReadOnly: true })
    const readOnly = await outcome(standby.claim(fenced('a', 5n)))
    expect((readOnly as PromiseRejectedResult).reason).toMatchObject({ why: 'read-only' })
  })
})

describe('the table of the guard', () => {
  // Written by hand, or by an older program: the database itself refuses what no guard would write.
  it('takes no token or count below 1', async () => {
    for (const [token, seq] of [
      [0, 1],
      [-1, 1],
      [1, 0],
    ]) {
      const row = `VALUES ('x', ${token}, 'o', ${seq}, 'p', 's')`
      const text = `INSERT INTO holdfast.fences (resource, token, owner, seq, op, source) ${row}`
      await expect(admin.query(text)).rejects.toMatchObject({ code: '23514' })
    }
  })
})
