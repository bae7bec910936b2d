/** What docs/guards/postgres.md says of the rights that a role needs, tried on a real PostgreSQL. */
import type pg from 'pg'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { codeBlocks } from '../../../../scripts/lib/snippets.mjs'
import { postgresGuard } from '../../src/guards/postgres.ts'
import { fenced, OTHER_OWNER, outcome } from '../../src/testkit/guard-suite-harness.ts'
import { openPool, type PostgresStand, startPostgresStand } from '../support/postgres.ts'
import { pageOf, tableUnder } from '../unit/docs/pages.ts'

const page = pageOf('docs/guards/postgres.md')

let stand: PostgresStand
let admin: pg.Pool
let pool: pg.Pool
let rounds = 0

beforeAll(async () => {
  stand = await startPostgresStand()
  admin = openPool(stand.server, stand.server.port)
  await admin.query(
    'CREATE ROLE app LOGIN; CREATE TABLE wallets (id text PRIMARY KEY, balance int)',
  )
  await admin.query(postgresGuard(admin).ddlFor('wallets'))
  pool = openPool(stand.server, stand.server.port, { user: 'app' })
})

afterAll(async () => {
  await pool.end()
  await admin.end()
  await stand.stop()
})

/** One right on one thing: a column, or all of it. */
type Right = Readonly<{ kind: string; column: string | null; object: string }>

/** The statements of the page for a role, one right each; an operator has them beside the program's. */
function rightsOfPage(role: 'app' | 'operator'): Right[] {
  const blocks = codeBlocks(page.text).filter(({ language }) => language === 'sql')
  const lines = blocks.flatMap(({ text }) => text.split('\n'))
  return lines.flatMap((line: string) => {
    const { kind, columns, object, to } =
      /^GRANT (?<kind>[A-Z]+)(?: \((?<columns>[^)]+)\))? ON (?<object>.+) TO (?<to>\w+);$/.exec(
        line,
      )?.groups ?? {}
    if (kind === undefined || object === undefined) throw new Error(`no grant: ${line}`)
    if (role === 'app' && to !== role) return []
    return (columns?.split(', ') ?? [null]).map((column) => ({ kind, column, object }))
  })
}

const textOf = ({ kind, column, object }: Right): string =>
  `${kind}${column === null ? '' : ` (${column})`} ON ${object}`

async function grantExactly(rights: readonly Right[]): Promise<void> {
  await admin.query(
    'REVOKE ALL ON SCHEMA holdfast FROM app; REVOKE ALL ON holdfast.fences, wallets FROM app',
  )
  for (const right of rights) await admin.query(`GRANT ${textOf(right)} TO app`)
}

/** Every call of the guard. @returns the names of those that were refused. */
async function exercise(): Promise<string[]> {
  const guard = postgresGuard(pool)
  const [name, moved] = [`rights:${++rounds}`, `rights:${rounds}:moved`]
  await admin.query('INSERT INTO wallets VALUES ($1, 1)', [name])
  await postgresGuard(admin).claim(fenced(moved, 9n, { source: 'elsewhere' }))
  const lease = fenced(name, 5n)
  const write = { table: 'wallets', where: { id: name }, set: { balance: 2 } }
  const inOwn = async (work: (tx: pg.PoolClient) => Promise<unknown>): Promise<void> => {
    const tx = await pool.connect()
    try {
      await tx.query('BEGIN')
      await work(tx)
      await tx.query('COMMIT')
    } catch (error) {
      await tx.query('ROLLBACK')
      throw error
    } finally {
      tx.release()
    }
  }
  const calls: readonly (readonly [name: string, call: () => Promise<unknown>])[] = [
    ['claim', () => guard.claim(lease)],
    ['claim', () => guard.claim(lease)],
    ['claim', () => inOwn((tx) => guard.claim(lease, tx))],
    ['transaction', () => guard.transaction(lease, async () => 1)],
    ['adopt', () => guard.adopt(fenced(name, 6n, { owner: OTHER_OWNER }))],
    ['adopt of another source', () => guard.adopt(fenced(moved, 5n))],
    ['highest', () => guard.highest(name)],
    ['update', () => guard.update(lease, write)],
    ['update', () => guard.update(lease, write)],
    ['update', () => inOwn((tx) => guard.update(lease, write, tx))],
  ]
  const refused: string[] = []
  for (const [call, act] of calls) {
    const settled = await outcome<unknown>(act())
    if (settled.status === 'fulfilled') continue
    expect(settled.reason).toMatchObject({ code: 'BACKEND_UNAVAILABLE', why: 'no-permission' })
    expect(settled.reason.message).toMatch(/permission denied for (?:schema holdfast|table \w+)/)
    refused.push(call)
  }
  return [...new Set(refused)]
}

// The accident: a page lists too few rights, and the missing one shows when a lease is lost.
it('the rights of the page are enough for every call, but for what an operator decides', async () => {
  await grantExactly(rightsOfPage('operator'))
  expect(await exercise()).toEqual([])
  await grantExactly(rightsOfPage('app'))
  // Copied for a program, the right to it would let the tokens of another store in.
  expect(await exercise()).toEqual(['adopt of another source'])
  expect(await postgresGuard(pool).check(['wallets'])).toMatchObject({ problems: [] })
})

// And the other one: rights are copied that nothing needs.
it('each of them is needed, for the calls that the table names', async () => {
  const rights = rightsOfPage('operator')
  const rows = tableUnder(page, '## Rights')
  const used = new Set<string>()
  for (const right of rights) {
    await grantExactly(rights.filter((other) => other !== right))
    const refused = await exercise()
    const exact = rows.find(([text]) => text === textOf(right))
    const row = exact ?? rows.find(([text]) => text === textOf({ ...right, column: null }))
    const wanted = (row?.[1] ?? '').split(', ').map((name) => name.replaceAll('`', ''))
    expect({ right: textOf(right), refused }).toEqual({ right: textOf(right), refused: wanted })
    used.add(row?.[0] ?? '')
    // The check of a role's rights finds the same, but for what only an operator needs.
    const isOptional =
      ['source', 'id', 'balance'].includes(right.column ?? '') && right.kind !== 'USAGE'
    const { problems } = await postgresGuard(pool).check(['wallets'])
    if (!isOptional)
      expect({ right: textOf(right), count: problems.length }).toMatchObject({ count: 1 })
  }
  expect([...used].sort()).toEqual(rows.map(([text]) => text).sort())
})
