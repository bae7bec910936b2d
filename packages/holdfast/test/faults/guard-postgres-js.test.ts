import postgres from 'postgres'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { postgresGuard } from '../../src/guards/postgres.ts'
import { fakeLocks, loseLease } from '../../src/testkit/fake-locks.ts'
import { fenced, gate, leaseFor, outcome, until } from '../../src/testkit/guard-suite-harness.ts'
import { codeOf, type PostgresStand, reasonOf, startPostgresStand } from '../support/postgres.ts'
import { openPostgresJs, type Tx } from '../support/postgres-js.ts'

let stand: PostgresStand
let names = 0

beforeAll(async () => {
  stand = await startPostgresStand()
})

afterAll(() => stand.stop())

const newName = (): string => `postgres-js:${++names}`
const TERMINATE = 'SELECT pg_terminate_backend(pg_backend_pid())'

/** One connection: whatever the pool opens next takes the place of the one before. */
const openOne = (timeoutMs?: number): ReturnType<typeof openPostgresJs> =>
  openPostgresJs(stand, timeoutMs === undefined ? {} : { timeoutMs }, { max: 1 })

/** How many connections of the pool the server still counts. */
async function isConnected(name: string): Promise<boolean> {
  const { outside, close } = await stand.open()
  const text = 'SELECT 1 FROM pg_stat_activity WHERE application_name = $1'
  const rows = await outside(text, [name])
  await close()
  return rows.length > 0
}

describe('a transaction of postgres.js whose connection has ended', () => {
  // The driver's handle goes on sending: to nothing, which throws where nobody can catch it, or to the
  // session that the pool has opened in its place, where a late write stands alone and is applied.
  it('sends nothing any more, neither to nobody nor to the next session', async () => {
    const { sql, guard, append, entries, close } = openOne()
    const name = newName()
    const lease = leaseFor(fenced(name, 5n), 200)
    const written: Promise<unknown>[] = []
    const run = guard.transaction(lease, async (tx) => {
      const early = tx`INSERT INTO entries (resource, entry) VALUES (${name}, 'written down early')`
      await new Promise((resolve) => lease.signal.addEventListener('abort', resolve))
      // The pool's only place goes to the next session.
      await sql`SELECT 1`
      written.push(outcome(append(tx, name, 'late')), outcome(early))
      written.push(
        outcome(tx.unsafe(`INSERT INTO entries (resource, entry) VALUES ('${name}', 'u')`)),
      )
      written.push(outcome(tx.notify('a', 'b')), outcome(tx.savepoint(async () => 'never')))
      await Promise.all(written)
    })
    expect(codeOf(await outcome(run))).toBe('LEASE_LOST')
    for (const one of await Promise.all(written)) {
      expect(codeOf(one as PromiseSettledResult<unknown>)).toBe('CONNECTION_CLOSED')
    }
    expect(written).toHaveLength(5)
    expect(await entries(name)).toEqual([])
    await close()
  })

  it('rejects what is on its way and what waits behind it', async () => {
    const { guard, run, close } = openOne()
    // The connection is there before the lease begins, however long the server took for it.
    await guard.claim(fenced(newName(), 5n))
    const lease = leaseFor(fenced(newName(), 5n), 500)
    const settled: unknown[] = []
    const ended = guard.transaction(lease, async (tx) => {
      const texts = ['SELECT pg_sleep(20)', 'SELECT $1::text', 'SELECT $1::text || 2']
      const sent = texts.map((text) => outcome(run(tx, text, text.includes('$') ? ['a'] : [])))
      settled.push(...(await Promise.all(sent)).map(codeOf))
    })
    expect(codeOf(await outcome(ended))).toBe('LEASE_LOST')
    // The server's own time-out (57014) may be a moment before the lease's signal.
    const first = expect.stringMatching(/^(?:CONNECTION_DESTROYED|57014)$/)
    expect(settled).toEqual([first, 'CONNECTION_DESTROYED', expect.any(String)])
    await close()
  })

  it('is destroyed at the server, so that nobody waits for its rows', async () => {
    const name = newName()
    const { host, port, user, database } = stand.server.connection
    const connection = { application_name: name }
    const sql = postgres({ host, port, user, database, max: 1, connection })
    const inside = gate()
    const woken = gate()
    // Told by the store long before any time-out of the server, which is the validity at BEGIN.
    const locks = fakeLocks({ renew: false })
    const lease = await locks.acquire(name, { ttlMs: 300_000 })
    const run = outcome(
      postgresGuard(sql).transaction(lease, async (tx) => {
        await tx`SELECT 1`
        inside.open()
        await woken.opened
      }),
    )
    await inside.opened
    expect(await isConnected(name)).toBe(true)
    loseLease(lease, 'revoked')
    await until(async () => !(await isConnected(name)), 'its connection is gone, while fn goes on')
    woken.open()
    expect(codeOf(await run)).toBe('LEASE_LOST')
    await locks.close()
    await sql.end()
  })

  // The server's own words (25P03) reach nobody: the driver keeps them to itself.
  it('because the server ended it while fn waited, is told as busy, and ends no process', async () => {
    const { guard, append, entries, close } = openOne(150)
    const name = newName()
    for (let round = 0; round < 3; round++) {
      const run = guard.transaction(fenced(name, 5n), async (tx) => {
        await append(tx, name, 'never')
        // Long after the time-out: a busy server takes its time to close what it has ended.
        await new Promise((resolve) => setTimeout(resolve, 2000))
        return round === 1 ? 'swallowed' : append(tx, name, 'never')
      })
      expect(codeOf(await outcome(run))).toBe('GUARD_BUSY')
    }
    expect(await entries(name)).toEqual([])
    expect(await guard.claim(fenced(name, 5n))).toEqual({ seq: 1n })
    await close()
  })

  it('by an administrator makes the store unavailable, and does not hide what fn throws', async () => {
    const { guard, append, entries, close, run } = openOne()
    const name = newName()
    const own = new RangeError('not enough left')
    const foreign = Object.assign(new Error('read ECONNRESET'), { code: 'ECONNRESET' })
    const bodies: readonly [code: unknown, body: (tx: Tx) => Promise<unknown>][] = [
      ['BACKEND_UNAVAILABLE', (tx) => run(tx, TERMINATE)],
      ['BACKEND_UNAVAILABLE', (tx) => outcome(run(tx, TERMINATE))],
      [own, (tx) => outcome(run(tx, TERMINATE)).then(() => Promise.reject(own))],
      // An error of another connection is not taken for the end of ours.
      [foreign, () => Promise.reject(foreign)],
    ]
    for (const [expected, body] of bodies) {
      const settled = await outcome(
        guard.transaction(fenced(name, 5n), async (tx) => {
          await append(tx, name, 'never')
          await body(tx)
        }),
      )
      expect(typeof expected === 'string' ? codeOf(settled) : reasonOf(settled)).toBe(expected)
    }
    expect(await entries(name)).toEqual([])
    await close()
  })

  // The driver forgets who waits for a connection when one is opened in the place of a lost one.
  it('does not leave those waiting who asked for a connection meanwhile', async () => {
    const { guard, run, close } = openOne()
    for (let round = 0; round < 3; round++) {
      const inside = gate()
      const mayEnd = gate()
      const first = outcome(
        guard.transaction(fenced(newName(), 5n), async (tx) => {
          inside.open()
          await mayEnd.opened
          await run(tx, TERMINATE)
        }),
      )
      await inside.opened
      const second = guard.claim(fenced(newName(), 5n))
      const third = guard.claim(fenced(newName(), 5n))
      await new Promise((resolve) => setTimeout(resolve, 20))
      mayEnd.open()
      expect(codeOf(await first)).toBe('BACKEND_UNAVAILABLE')
      expect(await Promise.all([second, third])).toEqual([{ seq: 1n }, { seq: 1n }])
    }
    await close()
  })
})

describe('what fn is given by postgres.js', () => {
  it('works as the driver’s own transaction does', async () => {
    const { guard, entries, close } = openPostgresJs(stand)
    const name = newName()
    const told: string[] = []
    const other = openPostgresJs(stand)
    await other.sql.listen('told', (payload) => told.push(payload))
    const result = await guard.transaction(fenced(name, 5n), async (tx) => {
      const row = { resource: name, entry: 'helper' }
      await tx`INSERT INTO entries ${tx(row)}`
      await tx.savepoint('a"b', async (inner) => {
        await inner`INSERT INTO ${inner('entries')} (resource, entry) VALUES (${name}, 'kept')`
        const undone = inner.savepoint(async (deeper) => {
          await deeper`INSERT INTO entries (resource, entry) VALUES (${name}, 'undone')`
          await deeper`SELECT 1 / 0`
        })
        await expect(undone).rejects.toMatchObject({ code: '22012' })
      })
      const both = await tx.savepoint((inner) => [inner`SELECT 1 AS one`, inner`SELECT 2 AS two`])
      await tx.notify('told', 'with COMMIT')
      const part = tx`entry <> ${'undone'}`
      const cursor: unknown[] = []
      for await (const rows of tx`SELECT entry FROM entries WHERE resource = ${name} AND ${part}`.cursor(
        1,
      )) {
        cursor.push(...rows)
      }
      expect(told).toEqual([])
      return [both.flat(), cursor, await tx`SELECT ${tx.array(['a'])}::text[] AS list`.values()]
    })
    expect(result).toEqual([
      [{ one: 1 }, { two: 2 }],
      [{ entry: 'helper' }, { entry: 'kept' }],
      [[['a']]],
    ])
    expect(await entries(name)).toEqual(['helper', 'kept'])
    await until(() => told.length > 0, 'the message of the transaction')
    expect(told).toEqual(['with COMMIT'])
    await other.close()
    await close()
  })

  it('is over when the transaction is, and has no way to end it', async () => {
    const { guard, append, entries, close } = openOne()
    const name = newName()
    let kept: Tx | null = null
    await guard.transaction(fenced(name, 5n), async (tx) => {
      kept = tx
      expect('release' in tx && tx.release).toBeFalsy()
      const refused = { code: 'INVALID_ARGUMENT' }
      await expect(tx.prepare('two phases')).rejects.toMatchObject(refused)
      await expect(tx.file('/nowhere.sql')).rejects.toMatchObject(refused)
      await append(tx, name, 'in time')
    })
    const late = outcome(append(kept as unknown as Tx, name, 'too late'))
    expect(codeOf(await late)).toBe('CONNECTION_CLOSED')
    expect(await entries(name)).toEqual(['in time'])
    await close()
  })

  it.each([
    ['no prepared statements', { prepare: false }],
    ['names in another case', { transform: { column: postgres.toPascal } }],
  ] as const)('and the guard’s own statements work with %s', async (_, options) => {
    const { guard, close } = openPostgresJs(stand, {}, options)
    await guard.migrate()
    const lease = fenced(`${newName()}'$1"$2`, 5n)
    for (let seq = 1n; seq <= 3n; seq += 1n) expect(await guard.claim(lease)).toEqual({ seq })
    const { lockName, ...record } = lease
    expect(await guard.highest(lockName)).toEqual(record)
    expect(codeOf(await outcome(guard.claim({ ...lease, fencingToken: 4n })))).toBe('STALE_TOKEN')
    await close()
  })
})

describe('a caller of the guard by postgres.js', () => {
  it('who claims outside a transaction is told so, and nothing is claimed', async () => {
    const { sql, guard, close } = openPostgresJs(stand)
    const name = newName()
    const reserved = await sql.reserve()
    for (const tx of [sql, reserved, null, {}, 5]) {
      const refused = await outcome(guard.claim(fenced(name, 5n), tx as never))
      expect(reasonOf(refused)).toMatchObject({ code: 'INVALID_ARGUMENT', option: 'tx' })
    }
    reserved.release()
    expect(await guard.highest(name)).toBeNull()
    await close()
  })

  // A next version of the driver may send statements by another way, past the gate.
  it('whose driver cannot be held back is refused when the guard is made', async () => {
    const { sql, close } = openPostgresJs(stand)
    const unsafe = (text: string): object => Object.assign(sql.unsafe(text), { handler: undefined })
    const unlike = Object.assign(() => undefined, { begin: sql.begin, unsafe })
    expect(() => postgresGuard(unlike as never)).toThrow(
      expect.objectContaining({ code: 'INVALID_ARGUMENT', option: 'pool' }),
    )
    await close()
  })
})
