import type pg from 'pg'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { postgresGuard } from '../../src/guards/postgres.ts'
import { fenced, outcome } from '../../src/testkit/guard-suite-harness.ts'
import { codeOf, openPool, type PostgresStand, startPostgresStand } from '../support/postgres.ts'

let stand: PostgresStand
let admin: pg.Pool
let names = 0

beforeAll(async () => {
  stand = await startPostgresStand()
  admin = openPool(stand.server, stand.server.port)
})

afterAll(async () => {
  await admin.end()
  await stand.stop()
})

const LEASE = fenced('columns', 5n)
const wrote = (set: Record<string, unknown>): object => ({
  ...set,
  fence: '5',
  fence_seq: '1',
  fence_owner: LEASE.owner,
  fence_op: 'one',
  fence_source: LEASE.source,
})

/** A table of its own with the guard's columns. */
async function newTable(columns: string): Promise<string> {
  const table = `columns_${++names}`
  await admin.query(`CREATE TABLE ${table} (${columns})`)
  await admin.query(postgresGuard(admin).ddlFor(table))
  return table
}

describe('names in the column form', () => {
  // A name that ends a statement, or is folded to lower case, writes somebody else's data.
  it('are taken exactly as they are written, whatever is in them', async () => {
    const guard = postgresGuard(admin)
    const odd = `Odd "x" $1 ? ; DROP`
    const tables: readonly (readonly [asGiven: string, asQuoted: string])[] = [
      ['Upper', '"Upper"'],
      ['public.two words', 'public."two words"'],
      ['"dotted.name"', '"dotted.name"'],
      [`"${odd.replaceAll('"', '""')}"`, `"${odd.replaceAll('"', '""')}"`],
      ['"Schema.odd"."table.odd"', '"Schema.odd"."table.odd"'],
      ['漢字', '"漢字"'],
      ['select', '"select"'],
    ]
    await admin.query('CREATE SCHEMA "Schema.odd"')
    for (const [table, quoted] of tables) {
      await admin.query(`CREATE TABLE ${quoted} ("Key""; --" int PRIMARY KEY, "va lue" text)`)
      await admin.query(`INSERT INTO ${quoted} VALUES (1), (2)`)
      await admin.query(guard.ddlFor(table))
      const write = { table, where: { 'Key"; --': 1 }, set: { 'va lue': "it's" }, op: 'one' }
      expect(await guard.update(LEASE, write)).toBe('applied')
      expect(await guard.update(LEASE, write)).toBe('already-applied')
      const { rows } = await admin.query(`SELECT * FROM ${quoted} ORDER BY 1`)
      expect(rows[0]).toEqual(wrote({ 'Key"; --': 1, 'va lue': "it's" }))
      expect(rows[1]).toMatchObject({ 'va lue': null, fence: null })
    }
  })

  it('of the five columns are the option’s, and two sets of them do not meet', async () => {
    const table = await newTable('id int PRIMARY KEY, a text, b text')
    await admin.query(`INSERT INTO ${table} VALUES (1)`)
    const columns = { fence: 'B fence', seq: 'b"seq', owner: 'b_o', op: 'b_op', source: 'b_s' }
    const [one, other] = [postgresGuard(admin), postgresGuard(admin, { columns })]
    await admin.query(other.ddlFor(table))
    const where = { id: 1 }
    expect(await one.update(fenced('a', 9n), { table, where, set: { a: 'x' } })).toBe('applied')
    expect(await other.update(LEASE, { table, where, set: { b: 'y' } })).toBe('applied')
    const { rows } = await admin.query(`SELECT fence, "B fence" AS other, a, b FROM ${table}`)
    expect(rows).toEqual([{ fence: '9', other: '5', a: 'x', b: 'y' }])
  })
})

describe('values in the column form', () => {
  it('reach the row as the driver sends them, each in its own type', async () => {
    const table = await newTable(
      'id bigint PRIMARY KEY, big bigint, doc jsonb, at timestamptz, bytes bytea, words text[], ok bool, nothing text',
    )
    const id = 2n ** 62n + 1n
    await admin.query(`INSERT INTO ${table} (id, nothing) VALUES ($1, 'something')`, [id])
    const set = {
      big: 2n ** 63n - 1n,
      doc: { deep: ["it's", { n: 1.5 }] },
      at: new Date('2026-02-03T04:05:06.789Z'),
      bytes: Buffer.from([0, 255]),
      words: ['a"b', 'c,d'],
      ok: false,
      nothing: null,
    }
    const guard = postgresGuard(admin)
    expect(await guard.update(LEASE, { table, where: { id }, set, op: 'one' })).toBe('applied')
    const { rows } = await admin.query(`SELECT * FROM ${table}`)
    expect(rows).toEqual([wrote({ id: String(id), ...set, big: String(set.big) })])
  })

  // `= NULL` finds nothing, and a row that is there would be called missing.
  it('find their row by null, date, bytes and several columns too', async () => {
    const table = await newTable('a text, at timestamptz, b bytea, n int, value text')
    const at = new Date('2026-02-03T04:05:06.789Z')
    const b = Buffer.from([1, 2])
    await admin.query(`INSERT INTO ${table} VALUES (NULL, $1, $2, 1), ('x', $1, $2, 1)`, [at, b])
    const guard = postgresGuard(admin)
    const where = { a: null, at, b, n: 1 }
    expect(await guard.update(LEASE, { table, where, set: { value: 'v' } })).toBe('applied')
    const { rows } = await admin.query(`SELECT a, value FROM ${table} ORDER BY a`)
    expect(rows).toEqual([
      { a: 'x', value: null },
      { a: null, value: 'v' },
    ])
  })
})

describe('a write of the column form that is wrong', () => {
  // An UPDATE without the right WHERE is everybody's data.
  it('writes none of two rows, however often it is tried, alone or in a transaction', async () => {
    const table = await newTable('id int PRIMARY KEY, kind text, value text')
    await admin.query(`INSERT INTO ${table} VALUES (1, 'k'), (2, 'k'), (3, 'l')`)
    const { guard, pool, close } = await stand.open()
    const write = { table, where: { kind: 'k' }, set: { value: 'v' } }
    const tx = await pool.connect()
    await tx.query('BEGIN')
    for (const client of [undefined, undefined, undefined, tx, tx]) {
      const refused = guard.update(LEASE, write, client)
      await expect(refused).rejects.toMatchObject({ code: 'INVALID_ARGUMENT', option: 'where' })
    }
    // The transaction is still the caller's.
    expect(await guard.update(LEASE, { ...write, where: { kind: 'l' } }, tx)).toBe('applied')
    await tx.query('COMMIT')
    tx.release()
    const { rows } = await admin.query(`SELECT id, value FROM ${table} WHERE fence IS NOT NULL`)
    expect(rows).toEqual([{ id: 3, value: 'v' }])
    await close()
  })

  it('is refused by name before anything is sent', async () => {
    const { guard, pool, close } = await stand.open()
    const good = { table: 'written', where: { id: 'a' }, set: { value: 'v' } }
    const wrong: readonly [option: string, write: unknown][] = [
      ['write', null],
      ['write', 'written'],
      ['tables', { ...good, tables: 'x' }],
      ['table', { ...good, table: undefined }],
      ['table', { ...good, table: '' }],
      ['table', { ...good, table: 'a.b.c' }],
      ['table', { ...good, table: 'a"b' }],
      ['table', { ...good, table: 'a.' }],
      ['table', { ...good, table: 'x'.repeat(64) }],
      ['table', { ...good, table: 'a\0' }],
      ['where', { ...good, where: {} }],
      ['where', { ...good, where: undefined }],
      ['where', { ...good, where: [1] }],
      ['where.id', { ...good, where: { id: undefined } }],
      ['where.id', { ...good, where: { id: { a: 1 } } }],
      ['where.id', { ...good, where: { id: new Date(Number.NaN) } }],
      ['where.fence', { ...good, where: { id: 'a', fence: null } }],
      ['column', { ...good, where: { '': 'a' } }],
      ['column', { ...good, where: { ['x'.repeat(64)]: 'a' } }],
      ['set', { ...good, set: {} }],
      ['set', { ...good, set: null }],
      ['set.value', { ...good, set: { value: undefined } }],
      ['set.value', { ...good, set: { value: () => 1 } }],
      ['set.value', { ...good, set: { value: Symbol('v') } }],
      ['set.fence_op', { ...good, set: { value: 'v', fence_op: 'mine' } }],
      ['set.id', { ...good, set: { id: 'b' } }],
      ['op', { ...good, op: '' }],
      ['op', { ...good, op: null }],
    ]
    for (const [option, write] of wrong) {
      const refused = guard.update(LEASE, write as never)
      await expect(refused, option).rejects.toMatchObject({ code: 'INVALID_ARGUMENT', option })
    }
    expect(pool.totalCount).toBe(0)
    for (const tx of [pool, null, {}, 5]) {
      const refused = guard.update(LEASE, good, tx as never)
      await expect(refused).rejects.toMatchObject({ code: 'INVALID_ARGUMENT', option: 'tx' })
    }
    for (const table of ['', 'a.b.c', 'a"b', 7]) {
      const option = 'table'
      expect(() => guard.ddlFor(table as never)).toThrow(expect.objectContaining({ option }))
    }
    await close()
  })

  it('says what the table lacks', async () => {
    const guard = postgresGuard(admin)
    await admin.query('CREATE TABLE bare (id int PRIMARY KEY, value text)')
    const write = { table: 'bare', where: { id: 1 }, set: { value: 'v' } }
    const wanting: readonly [write: typeof write, word: string][] = [
      [{ ...write, table: 'nowhere' }, '"nowhere" does not exist'],
      [{ ...write, table: 'nobody.nowhere' }, 'nobody.nowhere'],
      [write, 'guard.ddlFor(table)'],
      [{ ...write, table: 'written', set: { valeu: 'v' } } as never, 'valeu'],
    ]
    for (const [own, word] of wanting) {
      const refused = await outcome(guard.update(LEASE, own))
      expect(codeOf(refused)).toBe('INVALID_ARGUMENT')
      const { reason } = refused as PromiseRejectedResult
      expect(reason.option).toBe('table')
      expect(reason.message).toContain(word)
    }
  })

  // A business rule of the database, turned into an error of the lock library, is not found again.
  it('that the data refuses is refused by the database’s own error, and nothing is applied', async () => {
    const table = await newTable('id int PRIMARY KEY, value int CHECK (value > 0)')
    await admin.query(`INSERT INTO ${table} VALUES (1, 1)`)
    const { guard, close } = await stand.open()
    const write = { table, where: { id: 1 } }
    const broken: readonly [value: unknown, code: string][] = [
      [-1, '23514'],
      ['no number', '22P02'],
    ]
    for (const [value, code] of broken) {
      const refused = guard.update(LEASE, { ...write, set: { value } })
      await expect(refused).rejects.toMatchObject({ code })
    }
    const round: { self?: unknown } = {}
    round.self = round
    await expect(guard.update(LEASE, { ...write, set: { value: round } })).rejects.toThrow(
      TypeError,
    )
    const { rows } = await admin.query(`SELECT value, fence FROM ${table}`)
    expect(rows).toEqual([{ value: 1, fence: null }])
    // The connections are as good as before.
    for (const value of [2, 3, 4, 5, 6]) {
      expect(await guard.update(LEASE, { ...write, set: { value } })).toBe('applied')
    }
    await close()
  })
})

describe('a row that was written with tokens of another store', () => {
  // The error named `adopt`, which accepts a claim's record and leaves the row as it is.
  it('says what to run after a move, and takes the new tokens once that was run', async () => {
    const columns = { fence: 'B fence', seq: 'b"seq', owner: 'b_o', op: 'b_op', source: 'b_s' }
    for (const guard of [postgresGuard(admin), postgresGuard(admin, { columns })]) {
      const table = `columns_${++names}."Moved"`
      await admin.query(`CREATE SCHEMA columns_${names}`)
      await admin.query(`CREATE TABLE ${table} (id int PRIMARY KEY, value text)`)
      await admin.query(guard.ddlFor(`columns_${names}.Moved`))
      await admin.query(`INSERT INTO ${table} VALUES (1), (2)`)
      const write = (id: number) => ({
        table: `columns_${names}.Moved`,
        where: { id },
        set: { value: 'v' },
      })
      for (const id of [1, 2]) expect(await guard.update(LEASE, write(id))).toBe('applied')
      const moved = fenced('columns', 1n, { source: 'suite:moved' })
      const refused = await outcome(guard.update(moved, write(1)))
      expect(codeOf(refused)).toBe('TOKEN_SOURCE')
      const { message } = (refused as PromiseRejectedResult).reason
      expect(message).not.toContain('adopt')
      const [, repair = ''] = /, run (UPDATE .*)$/.exec(message) ?? []
      // As it stands it frees no row, and not all rows.
      await expect(admin.query(repair)).rejects.toMatchObject({ code: '42703' })
      await admin.query(repair.replace('…', '1'))
      expect(await guard.update(moved, write(1))).toBe('applied')
      // The other row is the old store's still.
      expect(codeOf(await outcome(guard.update(moved, write(2))))).toBe('TOKEN_SOURCE')
      expect(codeOf(await outcome(guard.update(LEASE, write(1))))).toBe('TOKEN_SOURCE')
    }
  })
})

describe('the columns', () => {
  it('can be added again and again, and keep what is there', async () => {
    const guard = postgresGuard(admin)
    const table = await newTable('id int PRIMARY KEY, value text')
    await admin.query(`INSERT INTO ${table} VALUES (1)`)
    await guard.update(LEASE, { table, where: { id: 1 }, set: { value: 'v' }, op: 'one' })
    await admin.query(guard.ddlFor(table))
    await admin.query(guard.ddlFor(`public.${table}`))
    const { rows } = await admin.query(`SELECT * FROM ${table}`)
    expect(rows).toEqual([wrote({ id: 1, value: 'v' })])
    const { rows: checks } = await admin.query(
      "SELECT conname FROM pg_constraint WHERE contype = 'c' AND conrelid = $1::regclass",
      [table],
    )
    expect(checks).toEqual([{ conname: 'holdfast_fence' }])
  })

  // Written by hand, or by an older program: half a fence lets everybody in, or nobody.
  it('are all null or all set, and hold no token or count below 1', async () => {
    const table = await newTable('id int PRIMARY KEY, value text')
    await admin.query(`INSERT INTO ${table} VALUES (1)`)
    const full = {
      fence: 1,
      fence_seq: 1,
      fence_owner: "'o'",
      fence_op: "'p'",
      fence_source: "'s'",
    }
    const halves = Object.keys(full).map((column) => ({ ...full, [column]: 'NULL' }))
    for (const wrong of [...halves, { ...full, fence: 0 }, { ...full, fence_seq: 0 }]) {
      const set = Object.entries(wrong).map(([column, value]) => `${column} = ${value}`)
      const text = `UPDATE ${table} SET ${set.join(', ')}`
      await expect(admin.query(text)).rejects.toMatchObject({ code: '23514' })
    }
    // Without the check, the guard still does not guess.
    await admin.query(`ALTER TABLE ${table} DROP CONSTRAINT holdfast_fence`)
    await admin.query(`UPDATE ${table} SET fence = 1`)
    const write = { table, where: { id: 1 }, set: { value: 'v' } }
    const refused = postgresGuard(admin).update(LEASE, write)
    await expect(refused).rejects.toMatchObject({ code: 'INVALID_ARGUMENT', option: 'table' })
  })
})
