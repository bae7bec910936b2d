import type pg from 'pg'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { postgresGuard } from '../../src/guards/postgres.ts'
import { fenced, outcome } from '../../src/testkit/guard-suite-harness.ts'
import { codeOf, openPool, type PostgresStand, startPostgresStand } from '../support/postgres.ts'
import { openSql } from '../support/postgres-js.ts'

let stand: PostgresStand
let admin: pg.Pool
let roles = 0

beforeAll(async () => {
  stand = await startPostgresStand()
  admin = openPool(stand.server, stand.server.port)
})

afterAll(async () => {
  await admin.end()
  await stand.stop()
})

/** A pool of a role that may log in and nothing else. Odd, because names are quoted or they are not. */
async function newRole(): Promise<{ role: string; pool: pg.Pool }> {
  const role = `App "${++roles}"`
  await admin.query(`CREATE ROLE ${quoted(role)} LOGIN`)
  return { role, pool: openPool(stand.server, stand.server.port, { user: role }) }
}

/** All that a role may do with the tables of a schema; what is not of single columns names none. */
async function rightsOf(role: string, schema: string): Promise<string[]> {
  const { rows } = await admin.query(
    `SELECT privilege_type AS kind, string_agg(column_name, ', ' ORDER BY column_name) AS columns
     FROM information_schema.column_privileges
     WHERE grantee = $1 AND table_schema = $2 GROUP BY kind
     UNION ALL
     SELECT privilege_type, 'whole rows' FROM information_schema.table_privileges
     WHERE grantee = $1 AND table_schema = $2
       AND privilege_type NOT IN ('SELECT', 'INSERT', 'UPDATE', 'REFERENCES')`,
    [role, schema],
  )
  return rows.map(({ kind, columns }) => `${kind} ${columns}`).sort()
}

const quoted = (name: string): string => `"${name.replaceAll('"', '""')}"`

describe('check', () => {
  // The DBA ran half of it. Which half was found out in production.
  it('names all that is missing, and its text repairs all of it', async () => {
    const { role, pool } = await newRole()
    const schema = 'check "it"'
    const guard = postgresGuard(pool, { schema })
    await admin.query(
      'CREATE SCHEMA "Rows"; CREATE TABLE "Rows"."a.b" (id int PRIMARY KEY, v text)',
    )
    await admin.query(`INSERT INTO "Rows"."a.b" VALUES (1)`)
    const tables = ['Rows."a.b"']
    const before = await guard.check(tables)
    expect(before.schemaVersion).toBeNull()
    expect(before.problems).toEqual([
      'the table "check ""it""".fences is missing',
      '"Rows"."a.b" has no column "fence" (bigint)',
      '"Rows"."a.b" has no column "fence_seq" (bigint)',
      '"Rows"."a.b" has no column "fence_owner" (text)',
      '"Rows"."a.b" has no column "fence_op" (text)',
      '"Rows"."a.b" has no column "fence_source" (text)',
      '"Rows"."a.b" has no check "holdfast_fence"',
      `role "${role}" lacks USAGE on the schema of "Rows"."a.b"`,
    ])
    for (let times = 0; times < 2; times++) await admin.query(before.ddl)
    expect(await guard.check(tables)).toEqual({ schemaVersion: 1, problems: [], ddl: '' })
    expect(await rightsOf(role, schema)).toEqual([
      'INSERT op, owner, resource, seq, source, token',
      'SELECT op, owner, resource, seq, source, token',
      'UPDATE op, owner, seq, token',
    ])
    await guard.migrate()
    expect(await guard.claim(fenced('a', 5n))).toEqual({ seq: 1n })
    // The rights on the caller's own columns are the caller's.
    await admin.query(`GRANT SELECT (id), UPDATE (v) ON "Rows"."a.b" TO ${quoted(role)}`)
    const write = { table: tables[0] as string, where: { id: 1 }, set: { v: 'x' } }
    expect(await guard.update(fenced('a', 5n), write)).toBe('applied')
    await pool.end()
  })

  it('names each single thing that is wrong with what is there', async () => {
    const schema = 'single'
    const { role, pool } = await newRole()
    const guard = postgresGuard(pool, { schema })
    await admin.query((await guard.check()).ddl)
    const table = 'single.fences'
    const quotedTable = '"single".fences'
    const [to, from] = [`TO ${quoted(role)}`, `FROM ${quoted(role)}`]
    const faults: [broken: string, problems: string | string[], repair: string | null][] = [
      [
        `ALTER TABLE ${table} DROP CONSTRAINT fences_check`,
        `${quotedTable} has no check "fences_check"`,
        null,
      ],
      [
        `REVOKE USAGE ON SCHEMA single ${from}`,
        `role "${role}" lacks USAGE on the schema of ${quotedTable}`,
        null,
      ],
      [
        `REVOKE INSERT ON ${table} ${from}`,
        `role "${role}" lacks INSERT on "resource", "token", "owner", "seq", "op", "source" of ${quotedTable}`,
        null,
      ],
      [
        `REVOKE UPDATE (seq, op) ON ${table} ${from}`,
        `role "${role}" lacks UPDATE on "seq", "op" of ${quotedTable}`,
        null,
      ],
      [
        `REVOKE SELECT ON ${table} ${from}; GRANT SELECT (resource, token, owner, seq, op) ON ${table} ${to}`,
        `role "${role}" lacks SELECT on "source" of ${quotedTable}`,
        null,
      ],
      [
        `ALTER TABLE ${table} ALTER COLUMN op TYPE varchar(40)`,
        `the column "op" of ${quotedTable} is of type character varying(40), not text`,
        `ALTER TABLE ${table} ALTER COLUMN op TYPE text`,
      ],
    ]
    // Unique, and of no use to the claim: not over every row, not alone; and at last not at once.
    const missing = `${quotedTable} has no primary key on "resource"`
    const dropped = `ALTER TABLE ${table} DROP CONSTRAINT fences_pkey`
    faults.push(
      [dropped, missing, null],
      [`${dropped}; CREATE UNIQUE INDEX own ON ${table} (resource) WHERE token > 1`, missing, null],
      [`${dropped}; CREATE UNIQUE INDEX own ON ${table} (resource, owner)`, missing, null],
    )
    // Even beside a good key.
    const own = `ADD CONSTRAINT own UNIQUE (resource) DEFERRABLE`
    const deferrable = `${quotedTable} has a deferrable constraint "own" on "resource", beside which no claim works`
    faults.push(
      [`ALTER TABLE ${table} ${own}`, deferrable, null],
      [`${dropped}, ${own}`, [deferrable, missing], null],
    )
    for (const [broken, problem, repair] of faults) {
      await admin.query(broken)
      const { problems, ddl } = await guard.check()
      expect(problems).toEqual([problem].flat())
      await admin.query(repair ?? ddl)
      expect(await guard.check()).toEqual({ schemaVersion: 1, problems: [], ddl: '' })
      expect(await guard.claim(fenced(broken, 5n)), broken).toEqual({ seq: 1n })
      await admin.query('DROP INDEX IF EXISTS single.own')
    }
    expect((await guard.check(['nowhere'])).problems).toEqual(['the table "nowhere" is missing'])
    await pool.end()
  })

  it('says the same by the other driver', async () => {
    const sql = openSql(stand)
    const found = await postgresGuard(sql, { schema: 'nowhere' }).check(['written'])
    expect(found).toEqual(await postgresGuard(admin, { schema: 'nowhere' }).check(['written']))
    expect(found.problems).toEqual(['the table "nowhere".fences is missing'])
    expect(await postgresGuard(sql).check(['written'])).toMatchObject({ problems: [] })
    await sql.end()
  })

  it('refuses what is no list of tables, and says when the server is gone', async () => {
    const guard = postgresGuard(admin)
    for (const tables of ['written', [7], ['a.b.c']]) {
      const refused = await outcome(guard.check(tables as never))
      expect(codeOf(refused)).toBe('INVALID_ARGUMENT')
    }
    const nobody = openPool(stand.server, 1)
    const gone = await outcome(postgresGuard(nobody).check())
    expect(codeOf(gone)).toBe('BACKEND_UNAVAILABLE')
    await nobody.end()
  })
})

describe('the schema version', () => {
  it('stands in the comment of the table, and a table without one has version 1', async () => {
    const comment = async (): Promise<unknown> => {
      const text = "SELECT obj_description('holdfast.fences'::regclass, 'pg_class') AS text"
      return (await admin.query(text)).rows[0].text
    }
    expect(await comment()).toBe('Holdfast fences, schema version 1')
    const guard = postgresGuard(admin)
    await admin.query('COMMENT ON TABLE holdfast.fences IS NULL')
    expect(await guard.check()).toMatchObject({ schemaVersion: 1, problems: [] })
    await guard.migrate()
    await admin.query(guard.ddl)
    expect(await comment()).toBe('Holdfast fences, schema version 1')
  })

  // An older program that goes on with a newer table writes what the newer ones do not expect.
  it('of a later one is refused by migrate and told by check', async () => {
    const guard = postgresGuard(admin, { schema: 'later' })
    await guard.migrate()
    await admin.query("COMMENT ON TABLE later.fences IS 'Holdfast fences, schema version 12'")
    const { schemaVersion, problems, ddl } = await guard.check()
    expect({ schemaVersion, ddl }).toEqual({ schemaVersion: 12, ddl: '' })
    expect(problems).toEqual([
      '"later".fences has schema version 12, and this version of Holdfast knows 1',
    ])
    const refused = await outcome(guard.migrate())
    expect(codeOf(refused)).toBe('INVALID_ARGUMENT')
    expect(String((refused as PromiseRejectedResult).reason)).toContain('schema version 12')
  })
})

describe('migrate of a role that may not create', () => {
  it('names what is missing, the schema or the table, and prints what to run', async () => {
    const { role, pool } = await newRole()
    const guard = postgresGuard(pool, { schema: 'not mine' })
    const messageOf = async (): Promise<string> => {
      const refused = await outcome(guard.migrate())
      expect(codeOf(refused)).toBe('BACKEND_UNAVAILABLE')
      const { reason } = refused as PromiseRejectedResult
      expect(reason.why).toBe('no-permission')
      return reason.message
    }
    expect(await messageOf()).toContain(
      `role "${role}" may not create the schema "not mine", which`,
    )
    await admin.query('CREATE SCHEMA "not mine"')
    const message = await messageOf()
    expect(message).toContain(`role "${role}" may not create the table "not mine".fences, which`)
    // What it prints is enough, as it stands.
    await admin.query(message.slice(message.indexOf('\n') + 1))
    await guard.migrate()
    expect(await guard.check()).toMatchObject({ problems: [] })
    expect(await guard.claim(fenced('a', 5n))).toEqual({ seq: 1n })
    await pool.end()
  })
})
