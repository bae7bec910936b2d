import pg from 'pg'
import { describe, expect, it } from 'vitest'
import { isConnectionLoss } from '../../src/clients/postgres.ts'
import { type PgClient, type PgPool, postgresGuard } from '../../src/guards/postgres.ts'
import { fenced, gate, leaseFor, outcome } from '../../src/testkit/guard-suite-harness.ts'
import { startProxy } from '../../src/testkit/proxy.ts'
import { codeOf, isCommit, openPool } from '../support/postgres.ts'
import { standOnPostgres } from '../support/postgres-stand.ts'

const stand = standOnPostgres('connections')
const { newName } = stand

/** A pool as a beginner makes it: whatever it reports unheard would end the process, and this run. */
function unheardPool(): pg.Pool {
  return new pg.Pool({ ...stand.server.connection, max: 4 })
}

describe('a connection of the pool', () => {
  // A pool without a bound of its own keeps who waits for ever, and a connection that comes too late
  // is nobody's.
  it('is waited for no longer than the call may take, and given back when it comes too late', async () => {
    const { pool, guard, close } = await stand.open({ timeoutMs: 200 })
    const taken = await Promise.all(Array.from({ length: 4 }, () => pool.connect()))
    const lease = leaseFor(fenced(newName(), 5n), 200)
    const late = await Promise.all([
      outcome(guard.claim(fenced(newName(), 5n))),
      outcome(guard.transaction(fenced(newName(), 5n), async () => 1)),
      outcome(guard.claim(lease)),
    ])
    expect(late.map(codeOf)).toEqual(['BACKEND_UNAVAILABLE', 'BACKEND_UNAVAILABLE', 'LEASE_LOST'])
    expect(pool.waitingCount).toBe(3)
    for (const client of taken) client.release()
    await expect.poll(() => [pool.waitingCount, pool.idleCount]).toEqual([0, 4])
    expect(await guard.claim(fenced(newName(), 5n))).toEqual({ seq: 1n })
    await close()
  })

  // The server ends an idle transaction by an error that belongs to no statement. Unheard, it ended
  // the process.
  it('that the server ends while fn waits ends no process, though nobody listens to the pool', async () => {
    const pool = unheardPool()
    const guard = postgresGuard(pool, { timeoutMs: 150 })
    for (let round = 0; round < 3; round++) {
      const lost = gate()
      const run = guard.transaction(fenced(newName(), 5n), async (tx) => {
        tx.once('error', () => lost.open())
        await lost.opened
        return 'done'
      })
      expect(codeOf(await outcome(run))).toBe('GUARD_BUSY')
    }
    await pool.end()
  })

  // Both ends give up at the same moment: the lease's own signal, and the time-out of the server, whose
  // last words reach a connection that the pool has written off.
  it('that both ends give up at once ends no process either', async () => {
    const pool = unheardPool()
    const guard = postgresGuard(pool)
    for (let round = 0; round < 40; round++) {
      const lease = leaseFor(fenced(newName(), 5n), 60 + (round % 7))
      const run = guard.transaction(lease, async () => {
        await new Promise((resolve) => setTimeout(resolve, 75))
      })
      expect(codeOf(await outcome(run))).toBe('LEASE_LOST')
    }
    await pool.end()
  })

  it('that an administrator ends makes the store unavailable, and nothing is applied', async () => {
    const { pool, guard, append, entries, close } = await stand.open()
    const name = newName()
    const end = (tx: pg.PoolClient): Promise<unknown> =>
      tx.query('SELECT pg_terminate_backend(pg_backend_pid())')
    const inStatement = guard.transaction(fenced(name, 5n), async (tx) => {
      await append(tx, name, 'never')
      await end(tx)
    })
    expect(codeOf(await outcome(inStatement))).toBe('BACKEND_UNAVAILABLE')
    const swallowed = guard.transaction(fenced(name, 5n), async (tx) => {
      await append(tx, name, 'never')
      await end(tx).catch((error) => expect(isConnectionLoss(error)).toBe(true))
    })
    expect(codeOf(await outcome(swallowed))).toBe('BACKEND_UNAVAILABLE')
    expect(await entries(name)).toEqual([])
    expect(await guard.claim(fenced(name, 5n))).toEqual({ seq: 1n })
    expect(pool.totalCount).toBeLessThanOrEqual(4)
    await close()
  })

  it('that is lost does not hide an error that fn has of its own', async () => {
    const { guard, close } = await stand.open()
    const own = new RangeError('not enough left')
    const run = guard.transaction(fenced(newName(), 5n), async (tx) => {
      await outcome(tx.query('SELECT pg_terminate_backend(pg_backend_pid())'))
      throw own
    })
    await expect(run).rejects.toBe(own)
    // An error of another connection is not taken for the end of ours.
    const foreign = Object.assign(new Error('read ECONNRESET'), { code: 'ECONNRESET' })
    const fetching = guard.transaction(fenced(newName(), 5n), async () => {
      throw foreign
    })
    await expect(fetching).rejects.toBe(foreign)
    await close()
  })

  // The work goes on in the very moment in which the server cuts it: its last words are heard only when
  // COMMIT is on its way, and belong to that.
  it('that the server cut is known for it even when COMMIT has been sent', async () => {
    const proxy = await startProxy(stand.server.port)
    const pool = openPool(stand.server, proxy.port)
    const guard = postgresGuard(pool, { timeoutMs: 300 })
    const watch = openPool(stand.server, stand.server.port)
    proxy.onBytes = (direction, bytes) => {
      const isEnd = direction === 'toServer' && isCommit(bytes)
      if (isEnd) proxy.letGo('toClient')
    }
    const name = newName()
    const run = guard.transaction(fenced(name, 5n), async (tx) => {
      const { rows } = await tx.query('SELECT pg_backend_pid() AS pid')
      proxy.hold('toClient')
      const isOver = async (): Promise<boolean> => {
        const { rowCount } = await watch.query('SELECT 1 FROM pg_stat_activity WHERE pid = $1', [
          rows[0].pid,
        ])
        return rowCount === 0
      }
      await expect.poll(isOver, { timeout: 20_000 }).toBe(true)
    })
    expect(codeOf(await outcome(run))).toBe('GUARD_BUSY')
    await pool.end()
    await watch.end()
    await proxy.close()
  })

  // The server's last words reach a connection that the pool has written off, and whose errors are
  // nobody's any more but the pool's.
  it('that is destroyed hears nothing that the server still says', async () => {
    const proxy = await startProxy(stand.server.port)
    const pool = openPool(stand.server, proxy.port)
    const told: unknown[] = []
    pool.on('error', (error) => told.push(error))
    const guard = postgresGuard(pool)
    const lease = leaseFor(fenced(newName(), 5n), 300)
    const run = guard.transaction(lease, async () => {
      proxy.hold('toClient')
      // By the end both the lease and the server's time-out are over.
      await new Promise((resolve) => setTimeout(resolve, 500))
    })
    expect(codeOf(await outcome(run))).toBe('LEASE_LOST')
    proxy.letGo('toClient')
    await new Promise((resolve) => setTimeout(resolve, 100))
    expect(told).toEqual([])
    await pool.end()
    await proxy.close()
  })

  // The driver stops waiting for COMMIT, and answers a later ROLLBACK: behind the COMMIT.
  it('whose driver stops waiting for COMMIT is not mistaken for one that refused it', async () => {
    const proxy = await startProxy(stand.server.port)
    const pool = openPool(stand.server, proxy.port, { query_timeout: 1000 })
    const guard = postgresGuard(pool)
    const name = newName()
    proxy.onBytes = (direction, bytes, connection) => {
      if (direction !== 'toServer' || !isCommit(bytes)) return
      connection.hold('toClient')
      // After the driver gave up, and before it gives up the ROLLBACK that follows.
      setTimeout(() => connection.letGo('toClient'), 1400)
    }
    const run = guard.transaction(fenced(name, 5n), async (tx) => {
      await tx.query('INSERT INTO entries (resource, entry) VALUES ($1, $2)', [name, 'once'])
      return 'result'
    })
    expect(await outcome(run)).toEqual({ status: 'fulfilled', value: 'result' })
    await pool.end()
    await proxy.close()
    const { entries, close } = await stand.open()
    expect(await entries(name)).toEqual(['once'])
    await close()
  })
})

describe('what a connection remembers', () => {
  // A pooler in transaction mode hands out another server session each time; DISCARD ALL is what
  // others do between two users. Both forget what was prepared.
  it('may be forgotten at any time', async () => {
    const { pool, guard, append, entries, close } = await stand.open()
    const name = newName()
    const texts: string[] = []
    pool.on('connect', (client) => {
      const { query } = client
      client.query = ((...args: [unknown]) => {
        texts.push(String(args[0]))
        return query.apply(client, args as never)
      }) as never
    })
    for (let round = 0; round < 8; round++) {
      await guard.transaction(fenced(name, 5n), (tx) => append(tx, name, String(round)))
      const client = await pool.connect()
      await client.query('DISCARD ALL')
      client.release()
    }
    expect(await entries(name)).toEqual(['0', '1', '2', '3', '4', '5', '6', '7'])
    expect(await guard.claim(fenced(name, 5n))).toEqual({ seq: 9n })
    // One failed beginning for the connection, not one for each transaction.
    const executed = texts.filter((text) => text.includes('EXECUTE'))
    expect(executed.length).toBe(2)
    await close()
  })

  // A pooler in session mode hands on a server session together with what is prepared in it.
  it('may be there before the guard comes', async () => {
    const first = await stand.open()
    const client = await first.pool.connect()
    await postgresGuard(poolOf(client)).claim(fenced(newName(), 5n))
    // The same session, in an object that no guard has seen.
    const guard = postgresGuard(poolOf(client))
    const name = newName()
    expect(await guard.claim(fenced(name, 5n))).toEqual({ seq: 1n })
    expect(await guard.claim(fenced(name, 5n))).toEqual({ seq: 2n })
    client.release()
    await first.close()
  })

  // Two guards with tables of their own must not execute each other's statements.
  it('is told apart by guards of different schemas on one connection', async () => {
    const { pool, guard, close } = await stand.open()
    const other = postgresGuard(pool, { schema: 'other "schema"; --' })
    await other.migrate()
    const name = newName()
    for (let seq = 1n; seq <= 3n; seq += 1n) {
      expect(await guard.claim(fenced(name, 5n))).toEqual({ seq })
      expect(await other.claim(fenced(name, 7n))).toEqual({ seq })
    }
    expect((await guard.highest(name))?.fencingToken).toBe(5n)
    expect((await other.highest(name))?.fencingToken).toBe(7n)
    await close()
  })
})

describe('the settings of a session', () => {
  // Read with other rules, a quoted name ends early, and the rest of it is a statement.
  for (const [what, setting] of [
    ['standard_conforming_strings off', 'SET standard_conforming_strings = off'],
    ['an encoding whose characters contain backslashes', "SET client_encoding = 'GBK'"],
    ['a search path of its own', 'SET search_path = pg_temp'],
    ['serializable by default', "SET default_transaction_isolation = 'serializable'"],
  ] as const) {
    it(`change nothing in what is claimed: ${what}`, async () => {
      const { guard, close } = await stand.open()
      const pool = openPool(stand.server, stand.server.port, { max: 1 })
      pool.on('connect', (client) => void client.query(setting))
      const set = postgresGuard(pool)
      const dangerous = [`\\'; DROP TABLE holdfast.fences; --`, `中\\'', '9', 'x'); --`, "a'b\\"]
      for (const text of dangerous) {
        const name = newName() + text
        await set.transaction(fenced(name, 5n, { source: `suite:${text}` }), async () => undefined)
        expect(await guard.highest(name)).toMatchObject({
          fencingToken: 5n,
          source: `suite:${text}`,
        })
      }
      await pool.end()
      await close()
    })
  }
})

/** A pool that lends one client, which stays borrowed, as a new object. */
function poolOf(client: pg.PoolClient): PgPool<PgClient> {
  const lent = {
    query: client.query.bind(client),
    on: client.on.bind(client),
    removeListener: client.removeListener.bind(client),
    release: () => undefined,
  }
  return { connect: async () => lent }
}
