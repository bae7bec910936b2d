import type pg from 'pg'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { postgresGuard } from '../../src/guards/postgres.ts'
import { fenced, outcome } from '../../src/testkit/guard-suite-harness.ts'
import { codeOf, openPool, type PostgresStand, startPostgresStand } from '../support/postgres.ts'

let stand: PostgresStand
let admin: pg.Pool

beforeAll(async () => {
  stand = await startPostgresStand()
  admin = openPool(stand.server, stand.server.port)
})

afterAll(async () => {
  await admin.end()
  await stand.stop()
})

/** As another role, which may log in and nothing else. */
async function poolAs(role: string): Promise<pg.Pool> {
  await admin.query(`CREATE ROLE ${role} LOGIN`)
  return openPool(stand.server, stand.server.port, { user: role })
}

describe('migrate', () => {
  // Ten processes start at once after a deployment, and all but one died of a duplicate key.
  it('may run in many processes at the same time, on nothing', async () => {
    for (let round = 0; round < 6; round++) {
      const schema = `many_${round}`
      const pools = Array.from({ length: 10 }, () => openPool(stand.server, stand.server.port))
      const runs = pools.map((pool) => postgresGuard(pool, { schema }).migrate())
      // Somebody who creates the same by hand, without our lock.
      const byHand = outcome(admin.query(postgresGuard(admin, { schema }).ddl))
      await Promise.all(runs)
      await byHand
      expect(await postgresGuard(pools[0]!, { schema }).claim(fenced('a', 5n))).toEqual({ seq: 1n })
      await Promise.all(pools.map((pool) => pool.end()))
    }
  })

  it('changes nothing where all is there', async () => {
    const { guard, close } = await stand.open()
    await guard.claim(fenced('kept', 5n))
    await guard.migrate()
    await guard.migrate()
    expect(await guard.claim(fenced('kept', 5n))).toEqual({ seq: 2n })
    await close()
  })

  // The usual case in production: the application's role may not create tables.
  it('tells a role that may not create what to run, and accepts what was run for it', async () => {
    const pool = await poolAs('app')
    const guard = postgresGuard(pool, { schema: 'locked "down"' })
    const refused = await outcome(guard.migrate())
    expect(codeOf(refused)).toBe('BACKEND_UNAVAILABLE')
    const { why, message } = (refused as PromiseRejectedResult).reason
    expect(why).toBe('no-permission')
    expect(message).toContain(guard.ddl)
    await admin.query(guard.ddl)
    await admin.query('GRANT USAGE ON SCHEMA "locked ""down""" TO app')
    await admin.query('GRANT SELECT, INSERT, UPDATE ON "locked ""down""".fences TO app')
    await guard.migrate()
    expect(await guard.claim(fenced('a', 5n))).toEqual({ seq: 1n })
    await pool.end()
  })

  it('names what is wrong with a table of another shape, and leaves it alone', async () => {
    await admin.query('CREATE SCHEMA taken')
    await admin.query('CREATE TABLE taken.fences (resource text, token integer)')
    const refused = await outcome(postgresGuard(admin, { schema: 'taken' }).migrate())
    expect(codeOf(refused)).toBe('INVALID_ARGUMENT')
    expect(String((refused as PromiseRejectedResult).reason)).toContain(
      '"token" is of type integer',
    )
    const { rows } = await admin.query(
      "SELECT format_type(atttypid, atttypmod) AS type FROM pg_attribute WHERE attrelid = 'taken.fences'::regclass AND attname = 'token'",
    )
    expect(rows).toEqual([{ type: 'integer' }])
  })

  it('does not wait for ever for another one', async () => {
    const other = await admin.connect()
    await other.query('BEGIN')
    await other.query('SELECT pg_advisory_xact_lock(1752132708, 1717662580)')
    const guard = postgresGuard(admin, { schema: 'waiting', timeoutMs: 200 })
    expect(codeOf(await outcome(guard.migrate()))).toBe('GUARD_BUSY')
    await other.query('ROLLBACK')
    other.release()
    await guard.migrate()
  })
})

describe('a guard that is not set up', () => {
  it('says that its table is missing, and what to do', async () => {
    const guard = postgresGuard(admin, { schema: 'nowhere' })
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
    const pool = await poolAs('reader')
    await admin.query('GRANT USAGE ON SCHEMA holdfast TO reader')
    await admin.query('GRANT SELECT ON holdfast.fences TO reader')
    const refused = await outcome(postgresGuard(pool).claim(fenced('a', 5n)))
    expect((refused as PromiseRejectedResult).reason).toMatchObject({ why: 'no-permission' })
    await pool.end()
    const standby = openPool(stand.server, stand.server.port, {
      options: '-c default_transaction_read_only=on',
    })
    const readOnly = await outcome(postgresGuard(standby).claim(fenced('a', 5n)))
    expect((readOnly as PromiseRejectedResult).reason).toMatchObject({ why: 'read-only' })
    await standby.end()
  })

  // Written by hand, or by an older program: the database itself refuses what no guard would write.
  it('has a table that takes no token or count below 1', async () => {
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
