import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import {
  BackendUnavailableError,
  InvalidArgumentError,
  StaleTokenError,
} from '../../src/core/errors.ts'
import { fenced, OTHER_OWNER, outcome } from '../../src/testkit/guard-suite-harness.ts'
import { sqliteDrivers } from '../support/sqlite-drivers.ts'
import { type OpenSqlite, type SqliteStand, startSqliteStand } from '../support/sqlite-stand.ts'

const TABLES: Readonly<Record<string, string>> = {
  plain: 'CREATE TABLE t (id INTEGER PRIMARY KEY, value)',
  strict: 'CREATE TABLE t (id INTEGER PRIMARY KEY, value TEXT) STRICT',
  'without rowid': 'CREATE TABLE t (id PRIMARY KEY, value) WITHOUT ROWID',
  'with a generated column':
    'CREATE TABLE t (id INTEGER PRIMARY KEY, value, twice AS (value || value) STORED)',
  'with triggers': `CREATE TABLE t (id INTEGER PRIMARY KEY, value); CREATE TABLE log (value);
    CREATE TRIGGER a BEFORE UPDATE ON t BEGIN INSERT INTO log VALUES (1), (2); END;
    CREATE TRIGGER b AFTER UPDATE ON t BEGIN UPDATE log SET value = 3; END`,
}

for (const driver of sqliteDrivers()) {
  describe(`the column form, by ${driver.name}`, () => {
    let stand: SqliteStand
    let ours: OpenSqlite
    const lease = fenced('r', 5n)
    const next = fenced('r', 6n, { owner: OTHER_OWNER })

    beforeEach(async () => {
      stand = await startSqliteStand(driver)
      ours = await stand.open()
    })
    afterEach(() => stand.stop())

    const make = (sql: string): void => {
      ours.db.exec(`${sql}; INSERT INTO t (id, value) VALUES (1, 'old')`)
      ours.db.exec(ours.guard.ddlFor('t'))
    }
    const values = (): unknown[] =>
      ours.other
        .prepare('SELECT value FROM t')
        .all()
        .map((row) => (row as Record<string, unknown>)['value'])
    const write = (value: unknown, where: Record<string, unknown> = { id: 1 }, table = 't') =>
      ({ table, where, set: { value } }) as const

    for (const [kind, sql] of Object.entries(TABLES)) {
      it(`a table ${kind} is written and refuses like any other`, async () => {
        make(sql)
        await expect(ours.guard.update(lease, write('a'))).resolves.toBe('applied')
        await expect(ours.guard.update(next, write('b'))).resolves.toBe('applied')
        await expect(ours.guard.update(lease, write('late'))).rejects.toThrow(StaleTokenError)
        await expect(ours.guard.update(next, write('x', { id: 2 }))).resolves.toBe('missing-row')
        expect(values()).toEqual(['b'])
      })
    }

    it('a where that finds two rows writes none', async () => {
      make('CREATE TABLE t (id INTEGER, value)')
      ours.db.exec("INSERT INTO t (id, value) VALUES (1, 'old'), (2, 'old')")
      const run = ours.guard.update(lease, write('x'))
      await expect(run).rejects.toMatchObject({ code: 'INVALID_ARGUMENT', option: 'where' })
      expect(values()).toEqual(['old', 'old', 'old'])
      await expect(ours.guard.update(lease, write('x', { id: 2 }))).resolves.toBe('applied')
    })

    it('null finds null, and values keep their types', async () => {
      make('CREATE TABLE t (id, value)')
      ours.db.exec('UPDATE t SET id = NULL')
      const bytes = new Uint8Array([1, 0, 2])
      for (const value of [2n ** 62n, 'text', null, 0.5, bytes]) {
        await ours.guard.update(lease, write(value, { id: null }))
        const [row] = ours.other.prepare('SELECT typeof(value) AS type FROM t').all() as {
          type: string
        }[]
        const type =
          value === null
            ? 'null'
            : { bigint: 'integer', string: 'text', number: 'real' }[typeof value as string]
        expect(row?.type).toBe(type ?? 'blob')
      }
      // One driver takes an object that comes first for a list of names, and binds the rest one off.
      for (const value of [new Date(), true, {}, [1]]) {
        const run = ours.guard.update(lease, write(value, { id: null }))
        await expect(run).rejects.toMatchObject({ option: 'set.value' })
      }
      const run = ours.guard.update(lease, write('x', { id: true }))
      await expect(run).rejects.toMatchObject({ option: 'where.id' })
    })

    // Nothing would say whether it was written.
    it('a view, and a trigger that leaves the write out, are refused', async () => {
      make(TABLES['plain'] as string)
      ours.db.exec(`CREATE VIEW v AS SELECT * FROM t;
        CREATE TRIGGER iv INSTEAD OF UPDATE ON v BEGIN UPDATE t SET value = NEW.value; END`)
      const view = ours.guard.update(lease, write('x', { id: 1 }, 'v'))
      await expect(view).rejects.toThrow(/a table, not a view/)
      ours.db.exec('CREATE TRIGGER no BEFORE UPDATE ON t BEGIN SELECT RAISE(IGNORE); END')
      await expect(ours.guard.update(lease, write('x'))).rejects.toThrow(/RAISE\(IGNORE\)/)
      expect(values()).toEqual(['old'])
    })

    it('a name that is not there is told by its name, and is never taken for a text', async () => {
      make(TABLES['plain'] as string)
      const calls = [
        write('x', { id: 1 }, 'nowhere'),
        write('x', { id: 1 }, 'nowhere.t'),
        write('x', { nowhere: 1 }),
        { ...write('x'), set: { nowhere: 1 } },
        write('x', { id: 1 }, 'written; DROP TABLE t'),
      ]
      for (const call of calls) {
        const run = ours.guard.update(lease, call)
        await expect(run).rejects.toMatchObject({ code: 'INVALID_ARGUMENT', option: 'table' })
        await expect(run).rejects.toThrow(/nowhere|DROP/)
      }
      expect(values()).toEqual(['old'])
    })

    it('what the data refuse reaches the caller as it is, and nothing is applied', async () => {
      make('CREATE TABLE t (id INTEGER PRIMARY KEY, value CHECK (value <> 7))')
      await expect(ours.guard.update(lease, write(7))).rejects.toThrow(/CHECK constraint/)
      expect(values()).toEqual(['old'])
      await expect(ours.guard.update(fenced('r', 4n), write(8))).resolves.toBe('applied')
    })

    it('the columns go by other names, and a table may have several sets', async () => {
      make(TABLES['plain'] as string)
      const columns = { fence: 'f"1', seq: 'f2', owner: 'f3', op: 'f4', source: 'f.5' }
      const other = await stand.open({}, { columns })
      ours.db.exec(other.guard.ddlFor('t'))
      await ours.guard.update(next, write('a'))
      await expect(other.guard.update(lease, write('b'))).resolves.toBe('applied')
      await expect(ours.guard.update(lease, write('c'))).rejects.toThrow(StaleTokenError)
      const same = { fence: 'F', seq: 'f' }
      await expect(stand.open({}, { columns: same })).rejects.toThrow(InvalidArgumentError)
    })

    it('the text that adds the columns adds what is missing, and keeps all of them set or none', () => {
      ours.db.exec('CREATE TABLE t (id INTEGER PRIMARY KEY, fence_OP TEXT)')
      const ddl = ours.guard.ddlFor('t')
      expect(ddl.match(/ADD COLUMN/g)).toHaveLength(4)
      ours.db.exec(ddl)
      expect(ours.guard.ddlFor('main.t')).toBe('')
      const half = [
        'fence) VALUES (1, 5)',
        "fence, fence_seq, fence_owner, fence_op, fence_source) VALUES (1, 0, 1, 'a', 'b', 'c')",
      ]
      for (const one of half) {
        expect(() => ours.db.exec(`INSERT INTO t (id, ${one}`)).toThrow(/CHECK/)
      }
      ours.db.exec('INSERT INTO t (id) VALUES (1)')
    })

    it('a row of an attached file is written there', async () => {
      ours.db.exec(`ATTACH '${stand.folder}/other.db' AS aux;
        CREATE TABLE aux.t (id INTEGER PRIMARY KEY, value); INSERT INTO aux.t VALUES (1, 'old')`)
      ours.db.exec(ours.guard.ddlFor('aux.t'))
      await expect(ours.guard.update(next, write('a', { id: 1 }, 'aux.t'))).resolves.toBe('applied')
      const late = ours.guard.update(lease, write('late', { id: 1 }, 'aux.t'))
      await expect(late).rejects.toThrow(StaleTokenError)
      await expect(late).rejects.toMatchObject({ highest: 6n })
    })
  })

  describe(`the set-up of a guard, by ${driver.name}`, () => {
    let stand: SqliteStand
    beforeEach(async () => {
      stand = await startSqliteStand(driver)
    })
    afterEach(() => stand.stop())

    it('a guard without its table says what to do, and check names what is missing', async () => {
      const { guard, db } = await stand.open({}, { tablePrefix: 'app_' })
      const calls = [guard.claim(fenced('r', 1n)), guard.highest('r'), guard.adopt(fenced('r', 1n))]
      for (const call of [...calls, guard.transaction(fenced('r', 1n), () => 1)]) {
        await expect(call).rejects.toThrow(/run guard.migrate\(\) once/)
      }
      db.exec('CREATE TABLE orders (id INTEGER PRIMARY KEY)')
      const found = await guard.check(['orders', 'nowhere'])
      expect(found.schemaVersion).toBeNull()
      expect(found.problems).toEqual([
        'the table app_fences is missing',
        ...[
          'fence" (INTEGER)',
          'fence_seq" (INTEGER)',
          'fence_owner" (TEXT)',
          'fence_op" (TEXT)',
          'fence_source" (TEXT)',
        ].map((name) => `"orders" has no column "${name}`),
        'the table "nowhere" is missing',
      ])
      db.exec(found.ddl)
      await expect(guard.check(['orders'])).resolves.toEqual({
        schemaVersion: 1,
        problems: [],
        ddl: '',
      })
    })

    it('a connection that may only read finds the table, or gets the text to run', async () => {
      const readOnly = await stand.open()
      readOnly.db.exec('PRAGMA query_only = 1')
      await readOnly.guard.migrate()
      await expect(readOnly.guard.claim(fenced('r', 1n))).rejects.toMatchObject({
        why: 'read-only',
      })
      await expect(readOnly.guard.check()).resolves.toMatchObject({
        problems: ['this connection may only read'],
      })
      const db = driver.open(stand.path, { readOnly: true })
      const { sqliteGuard } = await import('../../src/guards/sqlite.ts')
      const missing = sqliteGuard(db, { tablePrefix: 'app_' })
      await expect(missing.migrate()).rejects.toThrow(BackendUnavailableError)
      await expect(missing.migrate()).rejects.toThrow(missing.ddl)
      await expect(missing.check()).resolves.toMatchObject({ schemaVersion: null })
      db.close()
    })

    it('a table of another shape, or of a later version, is refused', async () => {
      const { guard, db } = await stand.open({}, { tablePrefix: 'app_' })
      db.exec('CREATE TABLE app_fences (resource TEXT PRIMARY KEY, token INTEGER)')
      await expect(guard.migrate()).rejects.toThrow(/no column "owner"/)
      db.exec(`DROP TABLE app_fences; ${guard.ddl.replace('version 1', 'version 2')}`)
      await expect(guard.migrate()).rejects.toThrow(/schema version 2/)
      await expect(guard.check()).resolves.toMatchObject({ schemaVersion: 2 })
    })

    it('several connections may create the table at once', async () => {
      const sides = await Promise.all(
        [1, 2, 3, 4].map(() => stand.open({}, { tablePrefix: 'app_' })),
      )
      await Promise.all(sides.map(({ guard }) => guard.migrate()))
      await expect(sides[0]?.guard.claim(fenced('r', 1n))).resolves.toEqual({ seq: 1n })
    })

    // better-sqlite3 comes with NORMAL: after a power cut the last transactions are gone.
    it('the connection is set to FULL, unless it is to stay as it is', async () => {
      const level = ({ db }: OpenSqlite): unknown =>
        Object.values(db.prepare('PRAGMA synchronous').get() as object)[0]
      const [full, normal] = [await stand.open(), await stand.open({}, { synchronous: 'normal' })]
      for (const side of [full, normal]) {
        side.db.exec('PRAGMA synchronous = NORMAL')
        await side.guard.claim(fenced('r', 1n))
      }
      expect([level(full), level(normal)]).toEqual([2, 1])
    })

    it('a connection that cannot roll back is refused', async () => {
      const other = await startSqliteStand(driver, 'DELETE')
      const { guard, db } = await other.open()
      db.exec('PRAGMA journal_mode = OFF')
      const [mode] = Object.values(db.prepare('PRAGMA journal_mode').get() as object)
      const settled = await outcome(guard.claim(fenced('r', 1n)))
      // A driver may not let it be set so.
      const expected = mode === 'off' ? 'rejected' : 'fulfilled'
      expect(settled).toMatchObject({ status: expected })
      if (mode === 'off') expect(settled).toMatchObject({ reason: { option: 'database' } })
      other.stop()
    })

    it('wrong options are refused by name', async () => {
      const wrong: Readonly<Record<string, unknown>>[] = [
        { tablePrefix: 'a b' },
        { tablePrefix: 'sqlite_' },
        { tablePrefix: '' },
        { timeoutMs: 99 },
        { timeoutMs: 1.5 },
        { synchronous: 'off' },
        { resource: 'r' },
        { columns: { fence: 'a', seq: 'A' } },
      ]
      for (const options of wrong) {
        const [name] = Object.keys(options)
        await expect(stand.open({}, options)).rejects.toMatchObject({ option: name })
      }
      await expect(stand.open({}, { unknown: 1 } as never)).rejects.toThrow(/unknown/)
    })
  })
}
