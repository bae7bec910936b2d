import pg from 'pg'
import { describe, expect, it } from 'vitest'
import { StaleTokenError } from '../../src/core/errors.ts'
import { fenced, gate, outcome, until } from '../../src/testkit/guard-suite-harness.ts'
import { type FaultProxy, startProxy } from '../../src/testkit/proxy.ts'
import { codeOf, type OpenPostgres, openInFlight } from '../support/postgres.ts'
import { standOnPostgres } from '../support/postgres-stand.ts'

const stand = standOnPostgres('flight')
const { newName } = stand

type Wired = Readonly<{ proxy: FaultProxy; sent: () => string; side: OpenPostgres }>

/** A pipelined guard behind a proxy that notes what is sent. */
async function wired(): Promise<Wired> {
  const proxy = await startProxy(stand.server.port)
  const side = await openInFlight(stand, { port: proxy.port })
  let sent = ''
  proxy.onBytes = (direction, bytes) => {
    if (direction === 'toServer') sent += Buffer.from(bytes).toString('latin1')
  }
  return { proxy, side, sent: () => sent }
}

async function closeAll({ side, proxy }: Wired): Promise<void> {
  await side.close()
  await proxy.close()
}

const INSERT = 'INSERT INTO entries (resource, entry) VALUES ($1, $2)'

/** Long enough for whatever would come too early. Milliseconds. */
const A_WHILE_MS = 100
const aWhile = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, A_WHILE_MS))

describe('before the verdict on its claim', () => {
  // A write, or a COMMIT, that is sent on trust is applied if there is no transaction around it.
  it('fn has started and its reads are sent, but no answer, no write and no COMMIT', async () => {
    const all = await wired()
    const { proxy, side, sent } = all
    const name = newName()
    let answers = 0
    proxy.hold('toClient')
    const run = side.guard.transaction(fenced(name, 5n), async (tx) => {
      const asked = ['SELECT 1 AS first', 'DELETE FROM entries WHERE false', 'SELECT 2 AS second']
      const results = asked.map(async (text) => {
        const { rows } = await tx.query(text)
        answers += 1
        return rows
      })
      return (await Promise.all(results)).flat()
    })
    await until(() => sent().includes('SELECT 1 AS first'), 'the read is sent')
    await aWhile()
    expect(sent()).toContain('EXECUTE holdfast_claim')
    // The second read stands behind a write, and order is kept.
    for (const text of ['DELETE', 'SELECT 2', 'COMMIT']) expect(sent()).not.toContain(text)
    expect(answers).toBe(0)
    proxy.letGo('toClient')
    expect(await run).toEqual([{ first: 1 }, { second: 2 }])
    const order = ['EXECUTE', 'SELECT 1', 'DELETE', 'SELECT 2', 'COMMIT']
    const places = order.map((text) => sent().indexOf(text))
    expect(places).toEqual([...places].sort((a, b) => a - b))
    await closeAll(all)
  })

  it('no COMMIT is sent though fn is done, and an error of fn waits for it too', async () => {
    const all = await wired()
    const { proxy, side, sent } = all
    const own = new RangeError('not enough left')
    const bodies: readonly (() => Promise<string>)[] = [
      async () => 'done',
      () => {
        throw own
      },
    ]
    const ends: PromiseSettledResult<string>[] = []
    for (const body of bodies) {
      const before = sent().length
      proxy.hold('toClient')
      const run = outcome(side.guard.transaction(fenced(newName(), 5n), body))
      await until(() => sent().slice(before).includes('EXECUTE'), 'the claim is sent')
      await aWhile()
      expect(sent().slice(before)).not.toMatch(/COMMIT|ROLLBACK/)
      proxy.letGo('toClient')
      ends.push(await run)
      expect(sent().slice(before)).toMatch(/COMMIT|ROLLBACK/)
    }
    expect(ends).toEqual([
      { status: 'fulfilled', value: 'done' },
      { status: 'rejected', reason: own },
    ])
    await closeAll(all)
  })

  // A statement of several, or one that makes a table, is no read, however it begins.
  it('only a single SELECT counts as a read', async () => {
    const all = await wired()
    const { proxy, side, sent } = all
    const reads = ['select 1 as a', ' SELECT 2 AS b ;\n', { text: 'SELECT $1 AS c', values: [3] }]
    const others = [
      'SELECT 4; COMMIT',
      'SELECT 5 AS e INTO TEMP made',
      'WITH w AS (SELECT 6) SELECT * FROM w',
      '/* seven */ SELECT 7',
      'COMMIT',
    ]
    for (const [isSent, texts] of [
      [true, reads],
      [false, others],
    ] as const) {
      for (const text of texts) {
        const before = sent().length
        proxy.hold('toClient')
        const run = outcome(
          side.guard.transaction(fenced(newName(), 5n), async (tx) => {
            await tx.query(text as string)
            throw new Error('enough')
          }),
        )
        const looked = typeof text === 'string' ? text : text.text
        if (isSent) await until(() => sent().slice(before).includes(looked), 'a read is sent')
        else await aWhile()
        expect(sent().slice(before).includes(looked)).toBe(isSent)
        proxy.letGo('toClient')
        await run
      }
    }
    await closeAll(all)
  })
})

describe('the fn of a superseded holder', () => {
  async function superseded(): Promise<Wired & { name: string }> {
    const all = await wired()
    const name = newName()
    await all.side.guard.claim(fenced(name, 6n, { owner: 'the-next-owner-of-all_' }))
    const before = all.sent().length
    return { ...all, name, sent: () => all.sent().slice(before) }
  }

  // A read that fails inside a refused transaction fails whatever is asked after it.
  it('is told as such, whatever its statements, and though it swallows what it is told', async () => {
    const all = await superseded()
    const { side, name, sent } = all
    const bodies: readonly ((tx: pg.PoolClient) => Promise<unknown>)[] = [
      async () => 'nothing asked',
      (tx) => tx.query('SELECT 1 / 0'),
      (tx) => tx.query('SELECT 1 / 0').catch(() => 'swallowed'),
      (tx) => tx.query(INSERT, [name, 'late']).catch(() => 'swallowed'),
      (tx) => tx.query('COMMIT').catch(() => 'swallowed'),
      (tx) => Promise.allSettled([tx.query('SELECT 1; COMMIT'), tx.query(INSERT, [name, 'x'])]),
      async () => {
        throw new RangeError('of its own')
      },
    ]
    for (const body of bodies) {
      const refused = await outcome(side.guard.transaction(fenced(name, 5n), body))
      expect(codeOf(refused)).toBe('STALE_TOKEN')
    }
    expect(sent()).not.toMatch(/COMMIT|INSERT INTO entries/)
    expect(await side.entries(name)).toEqual([])
    expect((await side.guard.highest(name))?.fencingToken).toBe(6n)
    await closeAll(all)
  })

  // Its transaction would keep the row of the next one locked, or its connection is another's by then.
  it('holds no row while it goes on, and what it sends late is refused', async () => {
    const all = await superseded()
    const { side, name, sent } = all
    const mayGoOn = gate()
    const isRefused = gate()
    const told: unknown[] = []
    const run = outcome(
      side.guard.transaction(fenced(name, 5n), async (tx) => {
        await tx.query('SELECT 1').catch((error) => told.push(error))
        isRefused.open()
        await mayGoOn.opened
        await tx.query('SELECT 2 AS late').catch((error) => told.push(error))
        await tx.query(INSERT, [name, 'late']).catch((error) => told.push(error))
      }),
    )
    await isRefused.opened
    expect(side.pool.idleCount).toBe(side.pool.totalCount - 1)
    const next = fenced(name, 7n, { owner: 'the-owner-after-that__' })
    expect(await side.guard.claim(next)).toEqual({ seq: 1n })
    mayGoOn.open()
    expect(codeOf(await run)).toBe('STALE_TOKEN')
    expect(told.length).toBe(3)
    for (const error of told) expect(error).toBeInstanceOf(StaleTokenError)
    expect(sent()).not.toMatch(/late/)
    expect(side.pool.idleCount).toBe(side.pool.totalCount)
    await closeAll(all)
  })

  // One rejection that nobody hears ends the process.
  it('may ignore all that is refused to it', async () => {
    const all = await superseded()
    const { side, name } = all
    const unheard: unknown[] = []
    const note = (error: unknown): void => void unheard.push(error)
    process.on('unhandledRejection', note)
    const run = side.guard.transaction(fenced(name, 5n), async (tx) => {
      void tx.query('SELECT 1 / 0')
      void tx.query(INSERT, [name, 'late'])
      await tx.query('SELECT 1').catch(() => undefined)
      void tx.query('SELECT 2')
    })
    expect(codeOf(await outcome(run))).toBe('STALE_TOKEN')
    await aWhile()
    process.off('unhandledRejection', note)
    expect(unheard).toEqual([])
    await closeAll(all)
  })

  it('is told in the form in which it asked', async () => {
    const all = await superseded()
    const { side, name } = all
    const told: unknown[] = []
    const run = side.guard.transaction(fenced(name, 5n), async (tx) => {
      await new Promise<void>((resolve) => {
        tx.query('SELECT 1', (error: unknown) => {
          told.push(error)
          resolve()
        })
      })
      await new Promise<void>((resolve) => {
        tx.query(
          new pg.Query('SELECT 2', [], (error: unknown) => {
            told.push(error)
            resolve()
          }),
        )
      })
    })
    expect(codeOf(await outcome(run))).toBe('STALE_TOKEN')
    expect(told.map((error) => error instanceof StaleTokenError)).toEqual([true, true])
    await closeAll(all)
  })
})
