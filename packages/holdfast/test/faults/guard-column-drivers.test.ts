import type pg from 'pg'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { postgresGuard } from '../../src/guards/postgres.ts'
import { fenced } from '../../src/testkit/guard-suite-harness.ts'
import { openPool, type PostgresStand, startPostgresStand } from '../support/postgres.ts'
import { openSql } from '../support/postgres-js.ts'

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

const LEASE = fenced('drivers', 5n)
const PREPARED = "SELECT name FROM pg_prepared_statements WHERE name LIKE 'holdfast_write_%'"

/** A pool of one connection, whose guarded writes are looked at. */
async function openOne(id: string): Promise<{
  pool: pg.Pool
  write: (value: string, tx?: pg.PoolClient) => Promise<string>
  names: () => Promise<number>
}> {
  const pool = openPool(stand.server, stand.server.port, { max: 1 })
  const guard = postgresGuard(pool)
  await pool.query('INSERT INTO written (id) VALUES ($1)', [id])
  return {
    pool,
    write: (value, tx) =>
      guard.update(LEASE, { table: 'written', where: { id }, set: { value } }, tx),
    names: async () => (await pool.query(PREPARED)).rows.length,
  }
}

describe('a guarded write by pg', () => {
  it('is prepared once on a connection of the server’s own', async () => {
    const { pool, write, names } = await openOne('direct')
    for (const value of ['a', 'b', 'c']) expect(await write(value)).toBe('applied')
    expect(await names()).toBe(1)
    await pool.end()
  })

  // A pooler in transaction mode gives each transaction another server session, in which the name is
  // unknown: the statement failed, and the caller's transaction with it.
  it('has no name where something stands between the driver and the server', async () => {
    const { pool, write, names } = await openOne('pooled')
    const client = await pool.connect()
    // As a pooler does it: it tells a process of its own.
    Object.assign(client, { processID: 1 })
    client.release()
    for (const value of ['a', 'b']) expect(await write(value)).toBe('applied')
    expect(await names()).toBe(0)
    await pool.end()
  })

  it('goes on without a name on a connection that forgets it', async () => {
    const { pool, write, names } = await openOne('forgets')
    expect(await write('a')).toBe('applied')
    await pool.query('DEALLOCATE ALL')
    expect(await write('b')).toBe('applied')
    expect(await write('c')).toBe('applied')
    expect(await names()).toBe(0)
    await pool.end()
  })

  it('that a connection forgot inside a transaction of the user fails once, and says so', async () => {
    const { pool, write } = await openOne('forgets inside')
    const client = await pool.connect()
    await client.query('BEGIN')
    expect(await write('a', client)).toBe('applied')
    await client.query('COMMIT; DEALLOCATE ALL; BEGIN')
    await expect(write('never', client)).rejects.toMatchObject({ code: 'BACKEND_UNAVAILABLE' })
    await client.query('ROLLBACK; BEGIN')
    expect(await write('b', client)).toBe('applied')
    await client.query('COMMIT')
    client.release()
    expect(await write('c')).toBe('applied')
    await pool.end()
  })
})

describe('a guarded write by postgres.js', () => {
  it.each([true, false])('brings each value in its own type, prepare %s', async (prepare) => {
    const sql = openSql(stand, stand.server.port, { prepare })
    const guard = postgresGuard(sql)
    const table = `drivers_${prepare}`
    await admin.query(`CREATE TABLE ${table} (id bigint PRIMARY KEY, big bigint, doc jsonb,
      at timestamptz, bytes bytea, ok bool, nothing text)`)
    await admin.query(guard.ddlFor(table))
    const id = 2n ** 62n + 1n
    await admin.query(`INSERT INTO ${table} (id, nothing) VALUES ($1, 'something')`, [id])
    const set = {
      big: 2n ** 63n - 1n,
      doc: { deep: ["it's", { n: 1.5 }] },
      at: new Date('2026-02-03T04:05:06.789Z'),
      bytes: Buffer.from([0, 255]),
      ok: false,
      nothing: null,
    }
    const write = { table, where: { id }, set, op: 'one' }
    expect(await guard.update(LEASE, write)).toBe('applied')
    expect(await guard.update(LEASE, write)).toBe('already-applied')
    const twice = await sql.begin(async (tx) => [
      await guard.update(LEASE, { ...write, op: 'two' }, tx),
      await guard.update(LEASE, { ...write, op: 'two' }, tx),
    ])
    expect(twice).toEqual(['applied', 'already-applied'])
    const { rows } = await admin.query(`SELECT * FROM ${table}`)
    expect(rows).toMatchObject([
      { id: String(id), ...set, big: String(set.big), fence: '5', fence_seq: '2' },
    ])
    await sql.end()
  })
})
