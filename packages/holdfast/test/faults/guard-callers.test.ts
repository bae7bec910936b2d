import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { fenced } from '../../src/testkit/guard-suite-harness.ts'
import { type PostgresStand, startPostgresStand } from '../support/postgres.ts'
import { DRIVERS, openBy } from '../support/postgres-drivers.ts'

let stand: PostgresStand

beforeAll(async () => {
  stand = await startPostgresStand()
})

afterAll(() => stand.stop())

describe.each(DRIVERS)('a guarded call by %s inside another one of the same lease', (driver) => {
  // It waited for the one around it, which waited for it, while the watchdog kept the lock for ever.
  it('is refused at once, and the one around it goes on', async () => {
    const { guard, close } = await openBy(driver, stand)
    const lease = fenced(`callers:nested:${driver}`, 5n)
    const inner = await guard.transaction(lease, async () => {
      const claimed = await guard.claim(lease).catch((error: unknown) => error)
      const nested = guard.transaction(lease, async () => 'never')
      return [claimed, await nested.catch((error: unknown) => error)]
    })
    for (const error of inner) expect(error).toMatchObject({ code: 'REENTRANT' })
    expect(await guard.transaction(lease, async () => 'again')).toBe('again')
    await close()
  })

  it('is no such thing for another record, nor after the one around it has ended', async () => {
    const { guard, close } = await openBy(driver, stand)
    const lease = fenced(`callers:outer:${driver}`, 5n)
    let later: Promise<unknown> = Promise.resolve()
    const seq = await guard.transaction(lease, async () => {
      const wait = new Promise((resolve) => setTimeout(resolve, 300))
      later = wait.then(() => guard.claim(lease))
      return (await guard.claim(fenced(`callers:inner:${driver}`, 5n))).seq
    })
    expect(seq).toBe(1n)
    expect(await later).toEqual({ seq: 2n })
    await close()
  })
})

describe('a caller of the guard without types', () => {
  it.each([null, undefined, 5, 'lease'])('who presents %s is told so', async (lease) => {
    const { guard, close } = await stand.open()
    const wrong = { code: 'INVALID_ARGUMENT', option: 'lease' }
    await expect(guard.claim(lease as never)).rejects.toMatchObject(wrong)
    await expect(guard.transaction(lease as never, async () => 1)).rejects.toMatchObject(wrong)
    await expect(guard.adopt(lease as never)).rejects.toMatchObject(wrong)
    await close()
  })

  // A pool has a query() too: the claim ran in a transaction of its own, and the caller's had none.
  it('who passes a pool, or no client, for the transaction is told so, and nothing is claimed', async () => {
    const { guard, pool, close } = await stand.open()
    for (const tx of [pool, null, {}, 5]) {
      await expect(guard.claim(fenced('callers:pool', 5n), tx as never)).rejects.toMatchObject({
        code: 'INVALID_ARGUMENT',
        option: 'tx',
      })
    }
    expect(await guard.highest('callers:pool')).toBeNull()
    await close()
  })

  it('who passes a client outside any transaction is told so, and nothing is claimed', async () => {
    const { guard, pool, close } = await stand.open()
    const client = await pool.connect()
    await client.query('SELECT 1')
    const outside = guard.claim(fenced('callers:outside', 5n), client)
    await expect(outside).rejects.toMatchObject({ code: 'INVALID_ARGUMENT', option: 'tx' })
    client.release()
    expect(await guard.highest('callers:outside')).toBeNull()
    await close()
  })

  // It was called unavailable, which says "again later"; the transaction was the caller's to end.
  it('who claims in a transaction that has failed hears of that', async () => {
    const { guard, pool, close } = await stand.open()
    const client = await pool.connect()
    await client.query('BEGIN')
    await client.query('SELECT 1 / 0').catch(() => 'the transaction has failed')
    await expect(guard.claim(fenced('callers:failed', 5n), client)).rejects.toMatchObject({
      code: '25P02',
    })
    await client.query('ROLLBACK')
    client.release()
    await close()
  })
})
