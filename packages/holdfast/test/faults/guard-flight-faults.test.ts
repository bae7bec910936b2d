import pg from 'pg'
import { describe, expect, it } from 'vitest'
import { InvalidArgumentError } from '../../src/core/errors.ts'
import { type PgClient, type PgPool, postgresGuard } from '../../src/guards/postgres.ts'
import { fenced, gate, leaseFor, outcome, until } from '../../src/testkit/guard-suite-harness.ts'
import { startProxy } from '../../src/testkit/proxy.ts'
import { codeOf, isCommit, type OpenPostgres, openInFlight, openPool } from '../support/postgres.ts'
import { openSql } from '../support/postgres-js.ts'
import { standOnPostgres } from '../support/postgres-stand.ts'

const stand = standOnPostgres('flight-faults')
const { newName } = stand

const INSERT = 'INSERT INTO entries (resource, entry) VALUES ($1, $2)'

/** Reads, then writes; notes each answer and each refusal of the read. */
function readAndWrite(name: string, seen: unknown[]): (tx: pg.PoolClient) => Promise<void> {
  return async (tx) => {
    const read = await outcome(tx.query('SELECT 1 AS one'))
    seen.push(codeOf(read))
    if (read.status === 'rejected') throw read.reason
    await tx.query(INSERT, [name, 'written'])
  }
}

describe('a claim in flight', () => {
  // In a snapshot that is older than the claim of another, reads would be too.
  it('that meets a serialization failure takes its reads with it, and runs again', async () => {
    const side = await openInFlight(stand, { isolation: 'repeatable read' })
    const name = newName()
    const seen: unknown[] = []
    const mayCommit = gate()
    const isBegun = gate()
    const before = side.guard.transaction(fenced(name, 5n), async (tx) => {
      await tx.query('SELECT 1')
      isBegun.open()
      await mayCommit.opened
    })
    await isBegun.opened
    const next = fenced(name, 6n, { owner: 'the-next-owner-of-all_' })
    const run = side.guard.transaction(next, readAndWrite(name, seen))
    await until(async () => {
      const waiting = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
      return (await side.outside(waiting)).length > 0
    }, 'the claim waits')
    expect(seen).toEqual([])
    mayCommit.open()
    await before
    await run
    expect(seen).toEqual(['40001', 'fulfilled'])
    expect(await side.entries(name)).toEqual(['written'])
    await side.close()
  })

  it('that waits too long for its row is busy, and its reads are refused', async () => {
    const side = await openInFlight(stand, { timeoutMs: 300 })
    const name = newName()
    await side.guard.claim(fenced(name, 5n))
    const own = await side.begin()
    await side.guard.claim(fenced(name, 5n), own.tx)
    const seen: unknown[] = []
    const run = side.guard.transaction(fenced(name, 6n), readAndWrite(name, seen))
    expect(codeOf(await outcome(run))).toBe('GUARD_BUSY')
    expect(seen).not.toContain('fulfilled')
    expect(seen.length).toBe(1)
    await own.rollBack()
    expect(await side.entries(name)).toEqual([])
    await side.close()
  })

  // A pooler in transaction mode, or DISCARD ALL.
  it('that was forgotten is written out from then on, and fn runs once more', async () => {
    const side = await openInFlight(stand)
    const name = newName()
    const clients = await Promise.all(Array.from({ length: 4 }, () => side.pool.connect()))
    for (const client of clients) {
      await client.query('DISCARD ALL')
      client.release()
    }
    const seen: unknown[] = []
    await side.guard.transaction(fenced(name, 5n), readAndWrite(name, seen))
    expect(seen.at(-1)).toBe('fulfilled')
    // At most once for each connection.
    const forgotten = seen.slice(0, -1)
    expect(forgotten.length).toBeGreaterThanOrEqual(1)
    expect(forgotten.length).toBeLessThanOrEqual(4)
    expect(new Set(forgotten)).not.toContain('fulfilled')
    expect(await side.entries(name)).toEqual(['written'])
    await side.close()
  })

  // Without one, each statement behind it is a transaction of its own.
  it('whose BEGIN fails is told as unknown if a read was carried out, and nothing is written', async () => {
    const proxy = await startProxy(stand.server.port)
    const side = await openInFlight(stand, { port: proxy.port })
    const name = newName()
    proxy.onBytes = (direction, bytes) => {
      const at = Buffer.from(bytes).indexOf('BEGIN;')
      // As if it had been cancelled: it is not even a statement any more.
      if (direction === 'toServer' && at >= 0) bytes[at] = 'X'.charCodeAt(0)
    }
    const seen: unknown[] = []
    const reads = side.guard.transaction(fenced(name, 5n), readAndWrite(name, seen))
    expect(codeOf(await outcome(reads))).toBe('OUTCOME_UNKNOWN')
    expect(seen).toEqual(['OUTCOME_UNKNOWN'])
    const writes = side.guard.transaction(fenced(name, 5n), (tx) => tx.query(INSERT, [name, 'x']))
    expect(codeOf(await outcome(writes))).toBe('BACKEND_UNAVAILABLE')
    proxy.onBytes = () => undefined
    expect(await side.entries(name)).toEqual([])
    expect(await side.guard.highest(name)).toBeNull()
    await side.close()
    await proxy.close()
  })

  it.each([
    ['whose connection is lost', 'BACKEND_UNAVAILABLE', 60_000, true],
    ['whose lease ends', 'LEASE_LOST', 400, false],
  ] as const)('%s applies nothing, and refuses its reads', async (_what, code, ttlMs, isReset) => {
    const proxy = await startProxy(stand.server.port)
    const side = await openInFlight(stand, { port: proxy.port })
    const name = newName()
    const lease = leaseFor(fenced(name, 5n), ttlMs)
    const seen: unknown[] = []
    let cut: (() => void) | null = null
    proxy.onBytes = (direction, bytes, connection) => {
      const isRead = direction === 'toServer' && Buffer.from(bytes).includes('SELECT 1 AS one')
      if (isRead) cut = () => connection.reset()
    }
    proxy.hold('toClient')
    const run = outcome(side.guard.transaction(lease, readAndWrite(name, seen)))
    await until(() => cut !== null, 'the read is sent')
    if (isReset) (cut as (() => void) | null)?.()
    expect(codeOf(await run)).toBe(code)
    expect(seen.length).toBe(1)
    expect(seen).not.toContain('fulfilled')
    proxy.letGo('toClient')
    await lease.release()
    expect(await side.entries(name)).toEqual([])
    expect(await side.guard.highest(name)).toBeNull()
    expect(await side.guard.claim(fenced(name, 5n))).toEqual({ seq: 1n })
    await side.close()
    await proxy.close()
  })

  // What was claimed in flight is what tells later whether its COMMIT was applied.
  it('is what settles a COMMIT whose answer is lost', async () => {
    const proxy = await startProxy(stand.server.port)
    const side = await openInFlight(stand, { port: proxy.port })
    const name = newName()
    proxy.onBytes = (direction, bytes, connection) => {
      if (direction === 'toServer' && isCommit(bytes)) connection.drop('toClient')
    }
    const lease = leaseFor(fenced(name, 5n), 1500)
    const seen: unknown[] = []
    const run = outcome(side.guard.transaction(lease, readAndWrite(name, seen)))
    expect(codeOf(await run)).toBe('fulfilled')
    expect(seen).toEqual(['fulfilled'])
    proxy.onBytes = () => undefined
    expect(await side.entries(name)).toEqual(['written'])
    await lease.release()
    await side.close()
    await proxy.close()
  })
})

describe('the client of a transaction in one flight', () => {
  it('takes statements in each of its forms', async () => {
    const side = await openInFlight(stand)
    const name = newName()
    const seen: unknown[] = []
    await side.guard.transaction(fenced(name, 5n), async (tx) => {
      const query = tx.query.bind(tx) as pg.PoolClient['query']
      await new Promise<void>((resolve, reject) => {
        tx.query(INSERT, [name, 'called back'], (error: unknown) =>
          error ? reject(error) : resolve(),
        )
      })
      await query(INSERT, [name, 'by an old reference'])
      const submitted = await new Promise<readonly unknown[]>((resolve, reject) => {
        const asked = new pg.Query('SELECT 1 AS one', [], (error, { rows }) =>
          error ? reject(error) : resolve(rows),
        )
        expect(tx.query(asked)).toBe(asked)
      })
      seen.push(...submitted)
    })
    expect(seen).toEqual([{ one: 1 }])
    expect(await side.entries(name)).toEqual(['called back', 'by an old reference'])
    await side.close()
  })

  // What observes a client, or wraps it, must find it as it left it.
  it('is as it was afterwards, with an observer of its own too', async () => {
    const side = await openInFlight(stand)
    const name = newName()
    const [first, ...rest] = await Promise.all(Array.from({ length: 4 }, () => side.pool.connect()))
    const client = first as pg.PoolClient
    for (const one of rest) one.release(true)
    const own = client.query
    const texts: unknown[] = []
    const observer = ((...args: [unknown]) => {
      texts.push(args[0])
      return own.apply(client, args as never)
    }) as never
    client.release()
    const transact = (): Promise<void> =>
      side.guard.transaction(fenced(name, 5n), readAndWrite(name, []))
    await transact()
    expect(Object.hasOwn(client, 'query')).toBe(false)
    client.query = observer
    await transact()
    expect(client.query).toBe(observer)
    expect(texts.filter((text) => text === 'SELECT 1 AS one').length).toBe(1)
    expect(texts).toContain(INSERT)
    await side.close()
  })

  it('may be refused by a superseded guard.update as well, whose own reads are held', async () => {
    const side: OpenPostgres = await openInFlight(stand)
    const row = newName()
    await side.column?.add(row)
    const lease = fenced(row, 5n)
    const update = (tx: pg.PoolClient): Promise<unknown> =>
      Promise.resolve(side.column?.update(lease, row, 'written', { tx }))
    expect(await side.guard.transaction(lease, update)).toBe('applied')
    await side.guard.claim(fenced(row, 6n, { owner: 'the-next-owner-of-all_' }))
    expect(codeOf(await outcome(side.guard.transaction(lease, update)))).toBe('STALE_TOKEN')
    expect(await side.column?.history(row)).toEqual(['written'])
    await side.close()
  })
})

describe('the option pipelined', () => {
  // Sent one after the other, nothing would be gained, and fn would start early for nothing.
  it('is refused without clients in pipeline mode, before anything is sent', async () => {
    const pool = openPool(stand.server, stand.server.port)
    const sql = openSql(stand)
    for (const other of [pool, sql]) {
      expect(() => postgresGuard(other as never, { pipelined: true })).toThrow(InvalidArgumentError)
    }
    // A pool that does not tell is found out by its clients.
    const silent: PgPool<PgClient> = { connect: () => pool.connect() }
    const guard = postgresGuard(silent, { pipelined: true })
    const name = newName()
    const refused = await outcome(guard.transaction(fenced(name, 5n), async () => 'done'))
    expect(codeOf(refused)).toBe('INVALID_ARGUMENT')
    expect(pool.idleCount).toBe(pool.totalCount)
    // What needs no flight works.
    expect(await guard.claim(fenced(name, 5n))).toEqual({ seq: 1n })
    await pool.end()
    await sql.end()
  })
})
