import type pg from 'pg'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { sqlState } from '../../src/clients/postgres.ts'
import type { Fenced } from '../../src/core/backend.ts'
import { fenced, leaseFor, outcome } from '../../src/testkit/guard-suite-harness.ts'
import {
  codeOf,
  type OpenPostgres,
  type PostgresStand,
  reasonOf,
  startPostgresStand,
} from '../support/postgres.ts'

let stand: PostgresStand
let names = 0

beforeAll(async () => {
  stand = await startPostgresStand()
})

afterAll(() => stand.stop())

/** A row of the user's own, and a way to change it from outside. */
async function rowOf({
  pool,
}: OpenPostgres): Promise<{ name: string; change(): Promise<unknown> }> {
  const name = `transactions:${++names}`
  await pool.query('INSERT INTO entries (resource, entry) VALUES ($1, $2)', [name, 'row'])
  const change = (): Promise<unknown> =>
    pool.query("UPDATE entries SET entry = entry || '.' WHERE resource = $1", [name])
  return { name, change }
}

const READ = 'SELECT entry FROM entries WHERE resource = $1'
const WRITE = "UPDATE entries SET entry = entry || '!' WHERE resource = $1"

describe('a transaction that met another one', () => {
  // The user's code sees an error that means "again", and passes it on to a customer.
  it('is run again from its claim, and counts as one call', async () => {
    const open = await stand.open({ isolation: 'repeatable read' })
    const { name, change } = await rowOf(open)
    let runs = 0
    await open.guard.transaction(fenced(name, 5n), async (tx) => {
      runs += 1
      await tx.query(READ, [name])
      if (runs <= 3) await change()
      await tx.query(WRITE, [name])
    })
    expect(runs).toBe(4)
    expect(await open.entries(name)).toEqual(['row...!'])
    expect(await open.guard.claim(fenced(name, 5n))).toEqual({ seq: 2n })
    await open.close()
  })

  // Query builders wrap what the driver threw.
  it('is recognised inside another error', async () => {
    const open = await stand.open({ isolation: 'repeatable read' })
    const { name, change } = await rowOf(open)
    let runs = 0
    await open.guard.transaction(fenced(name, 5n), async (tx) => {
      runs += 1
      await tx.query(READ, [name])
      if (runs === 1) await change()
      await tx.query(WRITE, [name]).catch((cause) => {
        throw new Error('the builder failed', { cause: new Error('the driver failed', { cause }) })
      })
    })
    expect(runs).toBe(2)
    await open.close()
  })

  it('gives up after five more runs, as busy, and nothing is applied', async () => {
    const open = await stand.open({ isolation: 'serializable' })
    const { name, change } = await rowOf(open)
    let runs = 0
    const run = open.guard.transaction(fenced(name, 5n), async (tx) => {
      runs += 1
      await tx.query(READ, [name])
      await change()
      await tx.query(WRITE, [name])
    })
    const refused = await outcome(run)
    expect(codeOf(refused)).toBe('GUARD_BUSY')
    expect(sqlState(reasonOf(refused))).toBe('40001')
    expect(runs).toBe(6)
    expect(await open.entries(name)).toEqual(['row......'])
    expect(await open.guard.highest(name)).toBeNull()
    await open.close()
  })

  it('is not run again once its lease is over', async () => {
    const open = await stand.open({ isolation: 'repeatable read' })
    const { name, change } = await rowOf(open)
    const lease = leaseFor(fenced(name, 5n), 60_000)
    let runs = 0
    const run = open.guard.transaction(lease, async (tx) => {
      runs += 1
      await tx.query(READ, [name])
      await change()
      await lease.release()
      await tx.query(WRITE, [name])
    })
    expect(codeOf(await outcome(run))).toBe('LEASE_LOST')
    expect(runs).toBe(1)
    await open.close()
  })

  // Two holders of different locks take the same two rows in opposite order.
  it('is run again after a deadlock', async () => {
    const open = await stand.open()
    const one = await rowOf(open)
    const two = await rowOf(open)
    const take = (lock: string, first: string, second: string): Promise<void> =>
      open.guard.transaction(fenced(`${lock}:${one.name}`, 5n), async (tx) => {
        await tx.query(WRITE, [first])
        await new Promise((resolve) => setTimeout(resolve, 50))
        await tx.query(WRITE, [second])
      })
    await Promise.all([take('a', one.name, two.name), take('b', two.name, one.name)])
    expect(await open.entries(one.name)).toEqual(['row!!'])
    expect(await open.entries(two.name)).toEqual(['row!!'])
    await open.close()
  })

  it('is left to the user in a transaction of his own', async () => {
    const open = await stand.open()
    const { name } = await rowOf(open)
    await open.guard.claim(fenced(name, 5n))
    const tx = await open.pool.connect()
    await tx.query('BEGIN ISOLATION LEVEL REPEATABLE READ')
    await tx.query(READ, [name])
    await open.guard.claim(fenced(name, 6n))
    const refused = await outcome(open.guard.claim(fenced(name, 7n), tx))
    // Its snapshot is older than the claim of 6: what it reads would be, too.
    expect(sqlState(reasonOf(refused))).toBe('40001')
    expect(codeOf(refused)).toBe('40001')
    await tx.query('ROLLBACK')
    tx.release()
    expect((await open.guard.highest(name))?.fencingToken).toBe(6n)
    await open.close()
  })
})

describe('the time-outs of a transaction', () => {
  const SETTINGS = ['idle_in_transaction_session_timeout', 'statement_timeout', 'lock_timeout']

  async function settings(open: OpenPostgres, fencedOrLease: Fenced): Promise<number[]> {
    return open.guard.transaction(fencedOrLease, async (tx) => {
      const text = SETTINGS.map(
        (name) => `(SELECT setting FROM pg_settings WHERE name = '${name}')`,
      )
      const { rows } = await tx.query<unknown[]>({ text: `SELECT ${text}`, rowMode: 'array' })
      return (rows[0] ?? []).map(Number)
    })
  }

  it('are the guard’s own for a plain holder, and what is left for a lease', async () => {
    const open = await stand.open({ timeoutMs: 7000 })
    expect(await settings(open, fenced(`limits:${++names}`, 5n))).toEqual([7000, 7000, 7000])
    const lease = leaseFor(fenced(`limits:${++names}`, 5n), 20_000)
    for (const limitMs of await settings(open, lease)) {
      expect(limitMs).toBeGreaterThan(5000)
      expect(limitMs).toBeLessThanOrEqual(20_000)
    }
    await lease.release()
    // They end with the transaction.
    const { rows } = await open.pool.query<{ statement_timeout: string }>('SHOW statement_timeout')
    expect(rows[0]?.statement_timeout).toBe('0')
    await open.close()
  })

  // An administrator bounds every statement at two seconds, and the guard lifts it to thirty.
  it('never lengthen what the session has already', async () => {
    const open = await stand.open({ timeoutMs: 7000 })
    const name = `limits:${++names}`
    for (const [index, setting] of SETTINGS.entries()) {
      for (const [own, expected] of [
        ['1500ms', 1500],
        ['2s', 2000],
        ['1min', 7000],
        ['3h', 7000],
        ['20d', 7000],
        ['0', 7000],
      ] as const) {
        open.pool.on('acquire', (client) => void client.query(`SET ${setting} = '${own}'`))
        const seen = await settings(open, fenced(name, 5n))
        expect(seen[index]).toBe(expected)
        expect(seen.filter((limitMs) => limitMs === 7000).length).toBeGreaterThanOrEqual(2)
        open.pool.removeAllListeners('acquire')
        await open.pool.query(`RESET ${setting}`)
      }
    }
    await open.close()
  })
})

describe('what belongs to fn', () => {
  // Time-outs of the guard's making are told apart from those of the user's.
  it('reaches the caller as it is: its own time-outs, cancels and refusals to wait', async () => {
    const open = await stand.open()
    const { name } = await rowOf(open)
    const blocker = await open.pool.connect()
    await blocker.query('BEGIN')
    await blocker.query(WRITE, [name])
    const bodies: readonly [code: string, (tx: pg.PoolClient) => Promise<unknown>][] = [
      ['55P03', (tx) => tx.query(`${READ} FOR UPDATE NOWAIT`, [name])],
      ['55P03', (tx) => waits(tx, 'lock_timeout', `${READ} FOR UPDATE`, [name])],
      ['57014', (tx) => waits(tx, 'statement_timeout', 'SELECT pg_sleep(20)', [])],
      ['57014', (tx) => cancelled(tx, open.pool)],
    ]
    for (const [code, body] of bodies) {
      const refused = await outcome(open.guard.transaction(fenced(name, 5n), body))
      expect(codeOf(refused)).toBe(code)
    }
    await blocker.query('ROLLBACK')
    blocker.release()
    await open.close()
  })

  it('a constraint that is checked at COMMIT reaches the caller, and nothing is applied', async () => {
    const open = await stand.open()
    const { name } = await rowOf(open)
    await open.pool.query(
      'CREATE TABLE once (name text, UNIQUE (name) DEFERRABLE INITIALLY DEFERRED)',
    )
    for (let round = 0; round < 6; round++) {
      const run = open.guard.transaction(fenced(name, 5n), async (tx) => {
        await open.append(tx, name, 'never')
        await tx.query("INSERT INTO once VALUES ('a'), ('a')")
      })
      expect(codeOf(await outcome(run))).toBe('23505')
    }
    expect(await open.entries(name)).toEqual(['row'])
    expect(await open.guard.highest(name)).toBeNull()
    await open.close()
  })

  // After its COMMIT nothing holds the row, and what follows is written without a guard.
  it('ending the transaction itself is told, with whatever end', async () => {
    const open = await stand.open()
    const { name } = await rowOf(open)
    for (const end of ['COMMIT', 'ROLLBACK']) {
      const run = open.guard.transaction(fenced(name, 5n), (tx) => tx.query(end))
      expect(codeOf(await outcome(run))).toBe('OUTCOME_UNKNOWN')
    }
    expect(await open.guard.claim(fenced(name, 5n))).toEqual({ seq: 2n })
    await open.close()
  })

  it('a savepoint saves what failed before it', async () => {
    const open = await stand.open()
    const { name } = await rowOf(open)
    await open.guard.transaction(fenced(name, 5n), async (tx) => {
      await tx.query('SAVEPOINT before')
      expect(codeOf(await outcome(open.fail(tx)))).toBe('22012')
      await tx.query('ROLLBACK TO SAVEPOINT before')
      await open.append(tx, name, 'kept')
    })
    expect(await open.entries(name)).toEqual(['row', 'kept'])
    await open.close()
  })

  // A floating statement of fn fails behind its back: COMMIT must not tell success.
  it('a statement that nobody waits for counts all the same', async () => {
    const open = await stand.open()
    const { name } = await rowOf(open)
    let floating: Promise<unknown> | undefined
    const run = open.guard.transaction(fenced(name, 5n), async (tx) => {
      floating = outcome(open.fail(tx))
      return 'done'
    })
    expect(codeOf(await outcome(run))).toBe('INVALID_ARGUMENT')
    await floating
    expect(await open.guard.highest(name)).toBeNull()
    await open.close()
  })

  it('that is no function, or a client outside any transaction, is refused', async () => {
    const open = await stand.open()
    const { name } = await rowOf(open)
    const none = outcome(open.guard.transaction(fenced(name, 5n), undefined as never))
    expect(codeOf(await none)).toBe('INVALID_ARGUMENT')
    const client = await open.pool.connect()
    await client.query('SELECT 1')
    const outside = await outcome(open.guard.claim(fenced(name, 5n), client))
    expect(codeOf(outside)).toBe('INVALID_ARGUMENT')
    client.release()
    expect(await open.guard.highest(name)).toBeNull()
    await open.close()
  })
})

/** A time-out that fn set itself, much shorter than the guard's. */
async function waits(
  tx: pg.PoolClient,
  setting: string,
  text: string,
  values: string[],
): Promise<unknown> {
  await tx.query(`SET LOCAL ${setting} = 50`)
  return tx.query(text, values)
}

/** Somebody looks at the running statement and ends it. */
async function cancelled(tx: pg.PoolClient, pool: pg.Pool): Promise<unknown> {
  const { rows } = await tx.query<{ pid: number }>('SELECT pg_backend_pid() AS pid')
  const sleeping = tx.query('SELECT pg_sleep(20)')
  const cancel = setTimeout(
    () => void pool.query('SELECT pg_cancel_backend($1)', [rows[0]?.pid]),
    50,
  )
  return sleeping.finally(() => clearTimeout(cancel))
}
