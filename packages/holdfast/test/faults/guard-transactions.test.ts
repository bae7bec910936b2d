import { describe, expect, it } from 'vitest'
import { sqlState } from '../../src/clients/postgres.ts'
import type { Fenced } from '../../src/core/backend.ts'
import { fenced, leaseFor, outcome } from '../../src/testkit/guard-suite-harness.ts'
import { codeOf, type OpenSql, reasonOf } from '../support/postgres.ts'
import { FORMS, openBy } from '../support/postgres-drivers.ts'
import { standOnPostgres } from '../support/postgres-stand.ts'

const stand = standOnPostgres('transactions')

/** A row of the user's own, and a way to change it from outside. */
async function rowOf(
  side: OpenSql<unknown>,
): Promise<{ name: string; change(): Promise<unknown> }> {
  const name = stand.newName()
  await side.outside('INSERT INTO entries (resource, entry) VALUES ($1, $2)', [name, 'row'])
  const change = (): Promise<unknown> =>
    side.outside("UPDATE entries SET entry = entry || '.' WHERE resource = $1", [name])
  return { name, change }
}

const READ = 'SELECT entry FROM entries WHERE resource = $1'
const WRITE = "UPDATE entries SET entry = entry || '!' WHERE resource = $1"

describe.each(FORMS)('a transaction by %s that met another one', (driver) => {
  // The user's code sees an error that means "again", and passes it on to a customer.
  it('is run again from its claim, and counts as one call', async () => {
    const side = await openBy(driver, stand, { isolation: 'repeatable read' })
    const { name, change } = await rowOf(side)
    let runs = 0
    await side.guard.transaction(fenced(name, 5n), async (tx) => {
      runs += 1
      await side.run(tx, READ, [name])
      if (runs <= 3) await change()
      await side.run(tx, WRITE, [name])
    })
    expect(runs).toBe(4)
    expect(await side.entries(name)).toEqual(['row...!'])
    expect(await side.guard.claim(fenced(name, 5n))).toEqual({ seq: 2n })
    await side.close()
  })

  // Query builders wrap what the driver threw.
  it('is recognised inside another error', async () => {
    const side = await openBy(driver, stand, { isolation: 'repeatable read' })
    const { name, change } = await rowOf(side)
    let runs = 0
    await side.guard.transaction(fenced(name, 5n), async (tx) => {
      runs += 1
      await side.run(tx, READ, [name])
      if (runs === 1) await change()
      await side.run(tx, WRITE, [name]).catch((cause) => {
        throw new Error('the builder failed', { cause: new Error('the driver failed', { cause }) })
      })
    })
    expect(runs).toBe(2)
    await side.close()
  })

  it('gives up after five more runs, as busy, and nothing is applied', async () => {
    const side = await openBy(driver, stand, { isolation: 'serializable' })
    const { name, change } = await rowOf(side)
    let runs = 0
    const run = side.guard.transaction(fenced(name, 5n), async (tx) => {
      runs += 1
      await side.run(tx, READ, [name])
      await change()
      await side.run(tx, WRITE, [name])
    })
    const refused = await outcome(run)
    expect(codeOf(refused)).toBe('GUARD_BUSY')
    expect(sqlState(reasonOf(refused))).toBe('40001')
    expect(runs).toBe(6)
    expect(await side.entries(name)).toEqual(['row......'])
    expect(await side.guard.highest(name)).toBeNull()
    await side.close()
  })

  it('is not run again once its lease is over', async () => {
    const side = await openBy(driver, stand, { isolation: 'repeatable read' })
    const { name, change } = await rowOf(side)
    const lease = leaseFor(fenced(name, 5n), 60_000)
    let runs = 0
    const run = side.guard.transaction(lease, async (tx) => {
      runs += 1
      await side.run(tx, READ, [name])
      await change()
      await lease.release()
      await side.run(tx, WRITE, [name])
    })
    expect(codeOf(await outcome(run))).toBe('LEASE_LOST')
    expect(runs).toBe(1)
    await side.close()
  })

  // Two holders of different locks take the same two rows in opposite order.
  it('is run again after a deadlock', async () => {
    const side = await openBy(driver, stand)
    const one = await rowOf(side)
    const two = await rowOf(side)
    const take = (lock: string, first: string, second: string): Promise<void> =>
      side.guard.transaction(fenced(`${lock}:${one.name}`, 5n), async (tx) => {
        await side.run(tx, WRITE, [first])
        await new Promise((resolve) => setTimeout(resolve, 50))
        await side.run(tx, WRITE, [second])
      })
    await Promise.all([take('a', one.name, two.name), take('b', two.name, one.name)])
    expect(await side.entries(one.name)).toEqual(['row!!'])
    expect(await side.entries(two.name)).toEqual(['row!!'])
    await side.close()
  })

  it('is left to the user in a transaction of his own', async () => {
    const side = await openBy(driver, stand)
    const { name } = await rowOf(side)
    await side.guard.claim(fenced(name, 5n))
    const own = await side.begin('repeatable read')
    await side.run(own.tx, READ, [name])
    await side.guard.claim(fenced(name, 6n))
    const refused = await outcome(side.guard.claim(fenced(name, 7n), own.tx))
    // Its snapshot is older than the claim of 6: what it reads would be, too.
    expect(sqlState(reasonOf(refused))).toBe('40001')
    expect(codeOf(refused)).toBe('40001')
    await own.rollBack()
    expect((await side.guard.highest(name))?.fencingToken).toBe(6n)
    await side.close()
  })
})

describe.each(FORMS)('the time-outs of a transaction by %s', (driver) => {
  const SETTINGS = ['idle_in_transaction_session_timeout', 'statement_timeout', 'lock_timeout']

  async function settings(side: OpenSql<unknown>, presented: Fenced): Promise<number[]> {
    return side.guard.transaction(presented, async (tx) => {
      const columns = SETTINGS.map(
        (name) => `(SELECT setting FROM pg_settings WHERE name = '${name}') AS ${name}`,
      )
      const [row = {}] = await side.run(tx, `SELECT ${columns}`)
      return SETTINGS.map((name) => Number(row[name]))
    })
  }

  it('are the guard’s own for a plain holder, and what is left for a lease', async () => {
    const side = await openBy(driver, stand, { timeoutMs: 7000 })
    expect(await settings(side, fenced(stand.newName(), 5n))).toEqual([7000, 7000, 7000])
    const lease = leaseFor(fenced(stand.newName(), 5n), 20_000)
    for (const limitMs of await settings(side, lease)) {
      expect(limitMs).toBeGreaterThan(5000)
      expect(limitMs).toBeLessThanOrEqual(20_000)
    }
    await lease.release()
    // They end with the transaction.
    const [row] = await side.outside('SHOW statement_timeout')
    expect(row).toEqual({ statement_timeout: '0' })
    await side.close()
  })

  // An administrator bounds every statement at two seconds, and the guard lifts it to thirty.
  it('never lengthen what the session has already', async () => {
    const admin = await stand.open()
    const name = stand.newName()
    for (const [index, setting] of SETTINGS.entries()) {
      for (const [own, expected] of [
        ['1500ms', 1500],
        ['2s', 2000],
        ['1min', 7000],
        ['3h', 7000],
        ['20d', 7000],
        ['0', 7000],
      ] as const) {
        await admin.outside(`ALTER DATABASE postgres SET ${setting} = '${own}'`)
        const side = await openBy(driver, stand, { timeoutMs: 7000 })
        const seen = await settings(side, fenced(name, 5n))
        await side.close()
        expect(seen[index]).toBe(expected)
        expect(seen.filter((limitMs) => limitMs === 7000).length).toBeGreaterThanOrEqual(2)
      }
      await admin.outside(`ALTER DATABASE postgres RESET ${setting}`)
    }
    await admin.close()
  })
})

describe.each(FORMS)('what belongs to fn, by %s,', (driver) => {
  // Time-outs of the guard's making are told apart from those of the user's.
  it('reaches the caller as it is: its own time-outs, cancels and refusals to wait', async () => {
    const side = await openBy(driver, stand)
    const { name } = await rowOf(side)
    const blocker = await side.begin()
    await side.run(blocker.tx, WRITE, [name])
    const bodies: readonly [code: string, (tx: unknown) => Promise<unknown>][] = [
      ['55P03', (tx) => side.run(tx, `${READ} FOR UPDATE NOWAIT`, [name])],
      ['55P03', (tx) => waits(side, tx, 'lock_timeout', `${READ} FOR UPDATE`, [name])],
      ['57014', (tx) => waits(side, tx, 'statement_timeout', 'SELECT pg_sleep(20)', [])],
      ['57014', (tx) => cancelled(side, tx)],
    ]
    for (const [code, body] of bodies) {
      const refused = await outcome(side.guard.transaction(fenced(name, 5n), body))
      expect(codeOf(refused)).toBe(code)
    }
    await blocker.rollBack()
    await side.close()
  })

  it('a constraint that is checked at COMMIT reaches the caller, and nothing is applied', async () => {
    const side = await openBy(driver, stand)
    const { name } = await rowOf(side)
    await side.outside(
      'DROP TABLE IF EXISTS once; CREATE TABLE once (name text UNIQUE DEFERRABLE INITIALLY DEFERRED)',
    )
    for (let round = 0; round < 6; round++) {
      const run = side.guard.transaction(fenced(name, 5n), async (tx) => {
        await side.append(tx, name, 'never')
        await side.run(tx, "INSERT INTO once VALUES ('a'), ('a')")
      })
      expect(codeOf(await outcome(run))).toBe('23505')
    }
    expect(await side.entries(name)).toEqual(['row'])
    expect(await side.guard.highest(name)).toBeNull()
    await side.close()
  })

  // After its COMMIT nothing holds the row, and what follows is written without a guard.
  it('ending the transaction itself is told, with whatever end', async () => {
    const side = await openBy(driver, stand)
    const { name } = await rowOf(side)
    for (const end of ['COMMIT', 'ROLLBACK']) {
      const run = side.guard.transaction(fenced(name, 5n), (tx) => side.run(tx, end))
      expect(codeOf(await outcome(run))).toBe('OUTCOME_UNKNOWN')
    }
    expect(await side.guard.claim(fenced(name, 5n))).toEqual({ seq: 2n })
    await side.close()
  })

  it('a savepoint saves what failed before it', async () => {
    const side = await openBy(driver, stand)
    const { name } = await rowOf(side)
    await side.guard.transaction(fenced(name, 5n), async (tx) => {
      await side.run(tx, 'SAVEPOINT before')
      expect(codeOf(await outcome(side.fail(tx)))).toBe('22012')
      await side.run(tx, 'ROLLBACK TO SAVEPOINT before')
      await side.append(tx, name, 'kept')
    })
    expect(await side.entries(name)).toEqual(['row', 'kept'])
    await side.close()
  })

  // A floating statement of fn fails behind its back: COMMIT must not tell success.
  it('a statement that nobody waits for counts all the same', async () => {
    const side = await openBy(driver, stand)
    const { name } = await rowOf(side)
    let floating: Promise<unknown> | undefined
    const run = side.guard.transaction(fenced(name, 5n), async (tx) => {
      floating = outcome(side.fail(tx))
      return 'done'
    })
    expect(codeOf(await outcome(run))).toBe('INVALID_ARGUMENT')
    await floating
    expect(await side.guard.highest(name)).toBeNull()
    await side.close()
  })

  it('that is no function is refused', async () => {
    const side = await openBy(driver, stand)
    const { name } = await rowOf(side)
    const none = outcome(side.guard.transaction(fenced(name, 5n), undefined as never))
    expect(codeOf(await none)).toBe('INVALID_ARGUMENT')
    expect(await side.guard.highest(name)).toBeNull()
    await side.close()
  })
})

/** A time-out that fn set itself, much shorter than the guard's. */
async function waits(
  side: OpenSql<unknown>,
  tx: unknown,
  setting: string,
  text: string,
  values: string[],
): Promise<unknown> {
  await side.run(tx, `SET LOCAL ${setting} = 50`)
  return side.run(tx, text, values)
}

/** Somebody looks at the running statement and ends it. */
async function cancelled(side: OpenSql<unknown>, tx: unknown): Promise<unknown> {
  const [row] = await side.run(tx, 'SELECT CAST(pg_backend_pid() AS text) AS pid')
  const sleeping = side.run(tx, 'SELECT pg_sleep(20)')
  const cancel = setTimeout(
    () => void side.outside(`SELECT pg_cancel_backend(${String(row?.['pid'])})`),
    50,
  )
  return Promise.resolve(sleeping).finally(() => clearTimeout(cancel))
}
